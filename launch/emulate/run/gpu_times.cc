#include "launch/emulate/run/gpu_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "launch/emulate/clock/verifier.h"
#include "launch/emulate/sandbox/last_lines.h"
#include "launch/emulate/sandbox/out_of_memory.h"
#include "launch/emulate/sandbox/record_turn.h"
#include "launch/emulate/sandbox/stall_watch.h"
#include "launch/process/interrupt.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/measured_kernels.h"
#include "replayer/cost/parameters.h"
#include "slicer/record/host_meter.h"
#include "slicer/record/op_stream.h"

namespace prism::launch {
namespace {

using channel::RecordKind;
using graph::OpKind;

// The first steady iteration warms up the GPU's clocks and caches.
constexpr int32_t kSkippedIterations = 1;
constexpr int32_t kTimedIterations = 5;
constexpr int32_t kLastIteration = kSkippedIterations + kTimedIterations;

// CUPTI's records come later than the op's: how long the last are waited for, if all ops have one,
// and if some have none.
constexpr std::chrono::milliseconds kSettles{200};
constexpr std::chrono::milliseconds kMostPatience{3000};

using Samples = std::vector<double>;            // ns
using OpSamples = std::map<uint32_t, Samples>;  // by op of the role's program

// What the host took for the calls of a kind of op.
struct HostSum {
  int64_t calls = 0;
  int64_t ns = 0;
};
using HostSums = std::map<OpKind, HostSum>;

bool RunsOnDevice(OpKind kind) {
  return kind == OpKind::kKernel || kind == OpKind::kMemcpy || kind == OpKind::kMemset;
}

// The three quarters of some samples, each one of them. Of three and more no single outlier is one,
// of as few as a short program gives.
struct Quarters {
  double low = 0;
  double median = 0;
  double high = 0;
};

Quarters QuartersOf(Samples samples) {
  std::ranges::sort(samples);
  const size_t last = samples.size() - 1;
  const size_t beyond = (last + 2) / 4;  // on each side
  return {samples[beyond], samples[last / 2], samples[last - beyond]};
}

// One rank on the GPU.
class TimedRank {
 public:
  TimedRank(const graph::Graph& graph, const SignatureIndex& index, Rank rank)
      : graph_(graph), index_(index), rank_(rank), memory_watch_(rank) {
    BeginAgain();
  }

  // Runs it until the iterations have their times. Fails, in one line, if it does not get there.
  Status Run(const RunContext& context, const MeetingPoint& meeting) {
    SandboxRequest request;
    request.rank = rank_;
    request.mode = channel::Mode::kDevice;
    request.present = {rank_};
    request.iterations = graph_.job.facts.warmup_iterations + kLastIteration + 1;
    request.meeting = meeting;
    PRISM_ASSIGN_OR_RETURN(const auto store, StartStore(context, 1));
    request.meeting.store_port = store == nullptr ? 0 : store->port();
    SandboxSpec spec = MakeSandboxSpec(context, request);
    spec.config.measures_device = 1;
    spec.config.measures_host = 1;
    PRISM_ASSIGN_OR_RETURN(const auto process, SandboxProcess::Start(spec));
    StallWatch stall_watch(context.options.stall_timeout_s);
    const RecordTaker take = [&](const channel::Record& record,
                                 std::span<const std::byte> payload) -> Result<bool> {
      PRISM_RETURN_IF_ERROR(See(record, payload, *process));
      return true;
    };
    while (!IsDone()) {
      PRISM_RETURN_IF_ERROR(InterruptStatus());
      PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(*process, take));
      if (turn.exited) {
        return process->ExitStatus().ok() ? OkStatus()
                                          : memory_watch_.Explain(RunFailed(fmt::format(
                                                "the program of rank {} fails: {}", rank_.value(),
                                                TellingLines(process->log(), 1))));
      }
      if (turn.moves > 0) {
        stall_watch.Move();
      }
      PRISM_RETURN_IF_ERROR(stall_watch.Check(*process, stream_->iteration()));
      WaitForRecords(*process);
    }
    return OkStatus();
  }

  [[nodiscard]] OpSamples Times() const {
    OpSamples times;
    for (const auto& [number, op] : op_of_) {
      if (const auto found = durations_.find(number); found != durations_.end()) {
        times[op].push_back(static_cast<double>(found->second));
      }
    }
    return times;
  }

  // Of the host, by kind of op: all waits count as one. Of the iteration in the middle, so that
  // what a program does once, as to load a module, is not in it.
  [[nodiscard]] HostSums host() const {
    HostSums middle;
    for (const auto& [kind, by_iteration] : host_) {
      std::vector<HostSum> sums;
      for (const auto& [iteration, sum] : by_iteration) {
        sums.push_back(sum);
      }
      std::ranges::sort(
          sums, [](const HostSum& a, const HostSum& b) { return a.ns * b.calls < b.ns * a.calls; });
      middle[kind] = sums[(sums.size() - 1) / 2];
    }
    return middle;
  }

  // What could not be timed at all, in the shim's words; "": nothing.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  void BeginAgain() {
    const graph::ProgramFacts& facts = graph_.job.facts;
    stream_.emplace(rank_, facts.warmup_iterations, facts.steps_per_iteration);
    verifier_.emplace(graph_, index_, rank_, kLastIteration + 1);
    next_ = 0;
    op_of_.clear();
    durations_.clear();
    host_.clear();
  }

  Status See(const channel::Record& record,
             std::span<const std::byte> payload,
             SandboxProcess& process) {
    switch (record.kind) {
      case RecordKind::kBeginAgain:
        BeginAgain();
        return OkStatus();
      case RecordKind::kHold:
        if (record.hold.ended == 0) {
          process.channel().SetDeadline(record.hold.hold_stream, record.hold.sequence, 0);
        }
        return OkStatus();
      case RecordKind::kDuration:
        durations_[record.duration.op] += record.duration.duration_ns;
        return OkStatus();
      default:
        break;
    }
    memory_watch_.See(record, payload);
    if (record.kind == RecordKind::kCounter) {
      SeeCounter(record.counter.name);
    }
    PRISM_ASSIGN_OR_RETURN(const auto ops, stream_->Push(record, payload));
    if (stream_->iteration() == 2) {
      stream_->SettleRule();
    }
    PRISM_RETURN_IF_ERROR(Compare(ops));
    SeeHost(record);
    const bool is_work = record.kind == RecordKind::kKernel || record.kind == RecordKind::kMatmul ||
                         record.kind == RecordKind::kMemcpy || record.kind == RecordKind::kMemset;
    next_ += is_work ? 1 : 0;
    if (stream_->iteration() >= kLastIteration && !ended_) {
      ended_ = std::chrono::steady_clock::now();
    }
    return OkStatus();
  }

  void SeeHost(const channel::Record& record) {
    const std::optional<OpKind> kind = slicer::ChargedOp(record.kind);
    if (kind && (record.flags & channel::kLaunchedWithPrevious) == 0 &&
        stream_->iteration() >= kSkippedIterations && stream_->iteration() < kLastIteration) {
      HostSum& sum = host_[*kind][stream_->iteration()];
      ++sum.calls;
      sum.ns += record.host_ns;
    }
  }

  void SeeCounter(uint32_t name) {
    const Result<std::string> text =
        stream_->definitions().Name(channel::Table::kCounterName, name);
    if (text.ok() && text->starts_with("kernels_not_timed:")) {
      trouble_ = "CUPTI refuses: " + text->substr(text->find(':') + 1);
    }
  }

  Status Compare(std::span<const slicer::PlacedOp> ops) {
    for (const slicer::PlacedOp& placed : ops) {
      const int32_t iteration = placed.place.iteration;
      if (iteration < 0 || iteration >= kLastIteration) {
        continue;
      }
      const Verdict verdict = verifier_->Check(placed, *stream_);
      if (verdict.kind == VerdictKind::kMismatch) {
        return RunFailed(fmt::format("on the GPU rank {} does {}; recorded was {}", rank_.value(),
                                     verdict.did, verdict.expected));
      }
      const auto position = verifier_->PositionOf(placed.place);
      if (position && iteration >= kSkippedIterations && RunsOnDevice(placed.op.kind)) {
        op_of_[next_] = static_cast<uint32_t>(*position % graph_.role_of(rank_).program.size());
      }
    }
    return OkStatus();
  }

  [[nodiscard]] bool IsDone() const {
    if (!ended_) {
      return false;
    }
    const auto waited = std::chrono::steady_clock::now() - *ended_;
    const bool complete = std::ranges::all_of(
        op_of_, [this](const auto& entry) { return durations_.contains(entry.first); });
    return waited > (complete ? kSettles : kMostPatience);
  }

  const graph::Graph& graph_;
  const SignatureIndex& index_;
  Rank rank_;
  OutOfMemoryWatch memory_watch_;
  std::optional<slicer::OpStream> stream_;
  std::optional<Verifier> verifier_;
  uint64_t next_ = 0;                      // number of the next op of the device
  std::map<uint64_t, uint32_t> op_of_;     // by such number: op of the program, if timed
  std::map<uint64_t, int64_t> durations_;  // by such number
  std::map<OpKind, std::map<int32_t, HostSum>> host_;           // by iteration
  std::optional<std::chrono::steady_clock::time_point> ended_;  // the last iteration
  std::string trouble_;
};

// The times of all roles, on their way into the graph.
class TimeTable {
 public:
  TimeTable(std::string gpu, const Options& options, graph::Graph* graph)
      : gpu_(std::move(gpu)),
        scale_(options.device_scale),
        host_factor_(options.host_factor),
        graph_(*graph) {}

  void Add(uint32_t role, const OpSamples& times, const HostSums& host) {
    for (const auto& [kind, sum] : host) {
      host_[kind].calls += sum.calls;
      host_[kind].ns += sum.ns;
    }
    const graph::Program& program = graph_.roles[role].program;
    for (const auto& [op, samples] : times) {
      Samples& all = by_key_[replayer::RecordedKey(graph_, program, op)];
      all.insert(all.end(), samples.begin(), samples.end());
    }
    of_role_[role] = times;
  }

  void Put() {
    std::vector<graph::Parameter> parameters;
    for (const auto& [key, samples] : by_key_) {
      const Quarters quarters = QuartersOf(samples);
      parameters.push_back({key, scale_ * quarters.median, "ns",
                            fmt::format("{}, {} times, middle half {:.0f} to {:.0f} ns", gpu_,
                                        samples.size(), quarters.low, quarters.high),
                            graph::Mark::kMeasured});
    }
    PutHost(&parameters);
    graph_.cluster.parameters.Put(parameters);
    const DurationNs gap_ns = replayer::ComputeCost(graph_.cluster).gap_ns();
    for (const auto& [role, times] : of_role_) {
      for (const auto& [op, samples] : times) {
        PutOwn(op, samples, gap_ns, &graph_.roles[role].program);
      }
    }
  }

  // Ops with a time, of those with a duration.
  [[nodiscard]] std::string Count(uint32_t role) const {
    const graph::Program& program = graph_.roles[role].program;
    const int64_t all = std::ranges::count_if(program.kind, RunsOnDevice);
    const auto timed = static_cast<int64_t>(of_role_.at(role).size());
    return timed == all ? fmt::format("all {}", all) : fmt::format("{} of {}", timed, all);
  }

  // Of kernels that keep a time of their own, which has no place in the graph for more: how often
  // they were seen and how far they varied.
  [[nodiscard]] std::string OwnTimes() const {
    return own_times_ == 0
               ? "none has a time of its own"
               : fmt::format(
                     "{} of a time of their own ({} to {} times each, the middle half "
                     "within {:.1f} % of the median, within {:.1f} % for the worst)",
                     FormatCounted(own_times_, "kernel"), own_least_, own_most_,
                     1e2 * QuartersOf(own_spreads_).median, 1e2 * std::ranges::max(own_spreads_));
  }

 private:
  void PutHost(std::vector<graph::Parameter>* parameters) const {
    for (size_t index = 0; index < graph::kOpKindCount; ++index) {
      const auto kind = static_cast<OpKind>(index);
      const bool waits = kind == OpKind::kEventSync || kind == OpKind::kDeviceSync;
      const auto found = host_.find(waits ? OpKind::kStreamSync : kind);
      if (found == host_.end()) {
        continue;
      }
      const HostSum& sum = found->second;
      const double mean = static_cast<double>(sum.ns) / static_cast<double>(sum.calls);
      const std::string source = fmt::format(
          "host beside {}, mean of {} calls between which the GPU was not waited for, "
          "of the middle one of the iterations",
          gpu_, sum.calls);
      parameters->push_back(
          {replayer::RecordedHostKey(kind), mean, "ns", source, graph::Mark::kMeasured});
      if (host_factor_ > 0) {
        parameters->push_back({std::string(replayer::HostCostKey(kind)),
                               std::round(host_factor_ * mean), "ns", source,
                               graph::Mark::kMeasured});
      }
    }
  }

  // A kernel whose time is another than its signature's beyond its own spread keeps it.
  void PutOwn(uint32_t op, const Samples& samples, DurationNs gap_ns, graph::Program* program) {
    if (program->kind[op] != OpKind::kKernel) {
      return;  // their value is their size
    }
    const double common =
        QuartersOf(by_key_.at(replayer::RecordedKey(graph_, *program, op))).median;
    const Quarters own = QuartersOf(samples);
    if (own.low <= common && common <= own.high) {
      return;
    }
    program->flags[op] |= graph::kDurationFixed;
    program->value.Set(op, static_cast<DurationNs>(std::llround(scale_ * own.median)) + gap_ns);
    own_least_ = own_times_++ == 0 ? samples.size() : std::min(own_least_, samples.size());
    own_most_ = std::max(own_most_, samples.size());
    own_spreads_.push_back(std::max(own.high - own.median, own.median - own.low) /
                           std::max(1.0, own.median));
  }

  std::string gpu_;
  double scale_;
  double host_factor_;  // of --host-time measured; 0: none
  graph::Graph& graph_;
  std::map<std::string, Samples> by_key_;
  std::map<uint32_t, OpSamples> of_role_;
  HostSums host_;
  int64_t own_times_ = 0;
  size_t own_least_ = 0;
  size_t own_most_ = 0;
  Samples own_spreads_;  // shares of the median
};

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Status TakeGpuTimes(const RunContext& context,
                    const std::function<MeetingPoint(Rank)>& meeting,
                    graph::Graph* graph) {
  RunContext on_gpu = context;
  on_gpu.gpu = context.record_gpu;
  const SignatureIndex index(*graph);
  TimeTable table(on_gpu.gpu->name, context.options, graph);
  std::string timed;
  graph::Warning missing;
  missing.code = "role_not_timed";
  for (uint32_t r = 0; r < graph->roles.size(); ++r) {
    const graph::Role& role = graph->roles[r];
    if (!graph->WasRecorded(role)) {
      continue;
    }
    TimedRank rank(*graph, index, role.representative);
    Status status = rank.Run(on_gpu, meeting(role.representative));
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    const OpSamples times = rank.Times();
    if (status.ok() && times.empty()) {
      status = RunFailed(rank.trouble().empty() ? "no op got a time" : rank.trouble());
    }
    if (!status.ok()) {
      missing.example = missing.count++ == 0
                            ? fmt::format("{} on {}: {}", role.name, on_gpu.gpu->name,
                                          FirstLine(status.message()))
                            : missing.example;
      context.logger.Warning("{} has modelled times: {}", role.name, FirstLine(status.message()));
      continue;
    }
    table.Add(r, times, rank.host());
    timed += fmt::format("{}{} {}", timed.empty() ? "" : ", ", role.name, table.Count(r));
  }
  table.Put();
  if (missing.count > 0) {
    graph->warnings.push_back(missing);
    std::ranges::sort(graph->warnings, {}, &graph::Warning::code);
  }
  if (!timed.empty()) {
    graph->assumptions.push_back(
        fmt::format("kernels, copies and memsets as timed on {} (median of {} iterations): {}; "
                    "{}, all others have their signature's",
                    on_gpu.gpu->name, kTimedIterations, timed, table.OwnTimes()));
  }
  return OkStatus();
}

}  // namespace prism::launch
