#include "tests/sim/recorded_ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "launch/emulate/sandbox/record_turn.h"
#include "launch/inputs/presets.h"
#include "slicer/record/recorder.h"

namespace prism::launch {
namespace {

constexpr int kIterations = 3;  // one to warm up, two that must be identical
constexpr off_t kExchangeBytes = off_t{1} << 32;

struct Member {
  std::unique_ptr<SandboxProcess> process;
  slicer::Recorder recorder;
  bool finished = false;
};

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() { close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Result<bool> Step(Member& member) {
  const RecordTaker consume = [&](const channel::Record& record,
                                  std::span<const std::byte> payload) -> Result<bool> {
    if (record.kind == channel::RecordKind::kRound) {
      PRISM_ASSIGN_OR_RETURN(const int32_t skipped, member.recorder.EndRound(record.round.left));
      member.process->channel().Reply(record.round.request, {0, 0, skipped});
      return true;
    }
    PRISM_RETURN_IF_ERROR(member.recorder.Consume(record, payload));
    return true;
  };
  PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(*member.process, consume));
  if (turn.exited) {
    member.finished = true;
    PRISM_RETURN_IF_ERROR(member.process->ExitStatus());
  }
  return turn.records > 0 || turn.exited;
}

Status RunAll(std::vector<Member>& members) {
  size_t left = members.size();
  for (size_t turn = 0; left > 0; ++turn) {
    bool busy = false;
    left = 0;
    for (Member& member : members) {
      if (!member.finished) {
        PRISM_ASSIGN_OR_RETURN(const bool did_something, Step(member));
        busy = busy || did_something;
        left += member.finished ? 0 : 1;
      }
    }
    if (!busy) {
      members[turn % members.size()].process->channel().WaitForRecord(1'000'000);
    }
  }
  return OkStatus();
}

}  // namespace

graph::JobSpec TinyJob() {
  graph::JobSpec job;
  job.name = "tiny";
  job.model.name = "tiny";
  job.model.layers = 8;
  job.model.hidden = 256;
  job.model.heads = 4;
  job.model.kv_heads = 4;
  job.model.ffn = 1024;
  job.model.vocab = 1000;
  job.model.seq_len = 128;
  job.parallel = {.tp = 2, .dp = 2, .pp = 4};
  job.global_batch_size = 8;
  job.seq_len = 128;
  job.zero_stage = 0;
  return job;
}

Result<RunContext> MakeTestContext(const Recording& recording) {
  RunContext context;
  context.job = recording.job;
  PRISM_ASSIGN_OR_RETURN(context.cluster, LoadCluster("h100-8x"));
  PRISM_ASSIGN_OR_RETURN(context.plan, slicer::MakePlan(context.job, slicer::PlanOptions()));
  PRISM_ASSIGN_OR_RETURN(context.paths, FindInstallPaths({}, false));
  if (!recording.program.empty()) {
    context.paths.workload = recording.program;
  }
  return context;
}

namespace {

// Runs all ranks at once, each with the others present or each as the only one.
Result<std::vector<graph::Fragment>> Record(const Recording& recording,
                                            const std::vector<Rank>& ranks,
                                            bool together) {
  PRISM_ASSIGN_OR_RETURN(const RunContext context, MakeTestContext(recording));
  const Descriptor exchange(memfd_create("prism-test-exchange", MFD_CLOEXEC));
  if (ftruncate(exchange.get(), kExchangeBytes) != 0) {
    return EnvironmentLacks("no shared memory for the exchange");
  }
  std::vector<Member> members;
  for (const Rank rank : ranks) {
    SandboxRequest request;
    request.rank = rank;
    request.present = together ? ranks : std::vector<Rank>{rank};
    request.iterations = kIterations;
    if (request.present.size() > 1) {
      request.meeting.exchange = fmt::format("/proc/{}/fd/{}", getpid(), exchange.get());
    }
    SandboxSpec spec = MakeSandboxSpec(context, request);
    spec.config.repeats_rounds = recording.leaves_out_rounds ? 1 : 0;
    spec.command.insert(spec.command.begin() + 1, recording.plants.begin(), recording.plants.end());
    PRISM_ASSIGN_OR_RETURN(auto process, SandboxProcess::Start(spec));
    slicer::RecorderOptions options;
    options.rank = rank;
    members.push_back({std::move(process), slicer::Recorder(options)});
  }
  PRISM_RETURN_IF_ERROR(RunAll(members));
  std::vector<graph::Fragment> fragments;
  for (Member& member : members) {
    PRISM_ASSIGN_OR_RETURN(graph::Fragment fragment, member.recorder.Finish());
    fragments.push_back(std::move(fragment));
  }
  return fragments;
}

}  // namespace

Result<std::vector<graph::Fragment>> RecordTogether(const Recording& recording,
                                                    const std::vector<Rank>& ranks) {
  return Record(recording, ranks, /*together=*/true);
}

Result<std::vector<graph::Fragment>> RecordAlone(const Recording& recording,
                                                 const std::vector<Rank>& ranks) {
  return Record(recording, ranks, /*together=*/false);
}

}  // namespace prism::launch
