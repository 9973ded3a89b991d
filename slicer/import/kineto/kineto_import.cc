#include "slicer/import/kineto/kineto_import.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/check.h"
#include "graph/validate/limits.h"
#include "slicer/import/kineto/step_program.h"
#include "slicer/import/kineto/trace_file.h"
#include "slicer/import/kineto/uneven_exchanges.h"

namespace prism::slicer {
namespace {

constexpr size_t kMaxTraceBytes = size_t{1} << 34U;  // of one that was packed

// Reads one profile after the other, then builds all ranks.
class KinetoImport {
 public:
  KinetoImport(uint32_t world, uint32_t ranks, GraphAssembly* assembly)
      : world_(world), ranks_(ranks), assembly_(*assembly) {}

  Status AddProfile(int64_t of_rank, const KinetoTrace& trace, const std::string& file) {
    const auto rank = static_cast<uint32_t>(of_rank);
    if (of_rank >= world_) {
      return BadFile(
          fmt::format("{}: is a profile of rank {}, but the job has {}", file, of_rank, world_));
    }
    if (program_of_.contains(rank)) {
      return BadFile(fmt::format("{}: is a second profile of rank {}; name only one", file, rank));
    }
    const KinetoRange step = StepOf(trace);
    PRISM_ASSIGN_OR_RETURN(StepProgram program,
                           ProgramOfStep(trace, step, world_, file, &assembly_));
    result_.notes.Add(program.notes);
    result_.notes.Add(
        fmt::format("the step used is {} of {}, that of median duration in the first profile",
                    step.name, trace.steps.size()),
        trace.steps.size() > 1 ? 1 : 0);
    result_.notes.Add("profiles mark no steps and count as one step each",
                      trace.steps.empty() ? 1 : 0);
    result_.notes.Add("profiles are cut off and end early", trace.is_cut_off ? 1 : 0);
    result_.notes.Add(fmt::format("profiles were made on {}; their kernels keep the measured times",
                                  trace.gpu.empty() ? "a GPU without a name" : trace.gpu));
    result_.tasks += program.tasks;
    program_of_[rank] = programs_.size();
    programs_.push_back(std::move(program));
    return OkStatus();
  }

  Status AddRanks() {
    result_.notes.Add("all-to-alls whose ranks move different amounts have the largest amount",
                      EvenOutExchanges(&programs_));
    std::vector<std::optional<Rank>> first_of(programs_.size());
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const size_t profile = ProfileOf(rank % world_);
      PRISM_ASSIGN_OR_RETURN(std::vector<uint32_t> comms,
                             CommunicatorsOf(programs_[profile], Rank(rank)));
      if (first_of[profile]) {
        assembly_.AddRankLike(Rank(rank), *first_of[profile], std::move(comms));
        continue;
      }
      first_of[profile] = Rank(rank);
      assembly_.AddRank(Rank(rank),
                        {std::move(programs_[profile].program), std::move(comms), {}, 0});
    }
    const auto used = std::ranges::count_if(first_of, [](const auto& rank) { return !!rank; });
    result_.notes.Add("ranks do what a profiled one does", ranks_ - used);
    if (ranks_ != world_) {
      NoteGrowth();
    }
    result_.notes.Add("profiles of ranks that the smaller job does not have are left out",
                      std::ssize(programs_) - used);
    return OkStatus();
  }

  ImportResult TakeResult() { return std::move(result_); }

 private:
  // Which groups another number of ranks makes larger or smaller.
  void NoteGrowth() {
    std::set<std::string> growing;
    for (const StepProgram& program : programs_) {
      for (const ProcessAxis& axis : program.groups) {
        if (axis.size == 0) {
          growing.insert(axis.name.empty() ? "all ranks" : axis.name);
        }
      }
    }
    result_.notes.Add(
        growing.empty()
            ? std::string("parts of the job, each as large as the profiled one, share no group")
            : fmt::format("process groups over the whole job grow to {} ranks ({}); all others "
                          "keep their size",
                          ranks_, fmt::join(growing, ", ")),
        growing.empty() ? std::max<int64_t>(ranks_ / world_, 1) : std::ssize(growing));
  }

  // The first profile's typical step, for every profile that contains it.
  KinetoRange StepOf(const KinetoTrace& trace) {
    const auto same = std::ranges::find(trace.steps, step_name_, &KinetoRange::name);
    if (same != trace.steps.end()) {
      return *same;
    }
    KinetoRange step = TypicalStep(trace);
    result_.notes.Add("profiles have other step numbers than the first one",
                      step_name_.empty() || trace.steps.empty() ? 0 : 1);
    if (step_name_.empty()) {
      step_name_ = step.name;
    }
    return step;
  }

  // The profile of the rank or of the next lower one that has one, else the first.
  [[nodiscard]] size_t ProfileOf(uint32_t rank) const {
    const auto above = program_of_.upper_bound(rank);
    return above == program_of_.begin() ? above->second : std::prev(above)->second;
  }

  Result<std::vector<uint32_t>> CommunicatorsOf(const StepProgram& program, Rank rank) {
    std::vector<uint32_t> comms;
    for (const ProcessAxis& axis : program.groups) {
      const std::optional<uint32_t> leader = LeaderOn(axis, rank, ranks_);
      if (!leader) {
        return InvalidArgument(
            fmt::format("{} ranks are not a multiple of process group '{}' ({} ranks, {} apart); "
                        "use another --target-gpus",
                        ranks_, axis.name, axis.size, axis.stride));
      }
      const auto [known, inserted] = comm_ids_.try_emplace({axis.Key(), *leader}, 0);
      if (inserted) {
        known->second =
            assembly_.Communicator(axis.name.empty() ? "all" : "pg " + axis.name,
                                   fmt::format("{}", axis.ordinal), *GroupOn(axis, rank, ranks_));
      }
      comms.push_back(known->second);
    }
    return comms;
  }

  uint32_t world_;
  uint32_t ranks_;
  GraphAssembly& assembly_;
  std::map<uint32_t, size_t> program_of_;  // by profiled rank
  std::vector<StepProgram> programs_;
  std::map<std::pair<AxisKey, uint32_t>, uint32_t> comm_ids_;  // by axis and lowest rank
  std::string step_name_;                                      // of the first profile
  ImportResult result_;
};

// The highest rank that a profile names, its own included; -1: none.
int64_t HighestRank(const KinetoTrace& trace) {
  int64_t highest = trace.rank;
  for (const std::vector<KinetoRange>* ranges : {&trace.issues, &trace.tasks}) {
    for (const KinetoRange& range : *ranges) {
      if (!range.collective.ranks.empty()) {
        highest = std::max<int64_t>(highest, range.collective.ranks.back());
      }
    }
  }
  return highest;
}

// The ranks of the job that was profiled: as the files say, else the number of files, or the ranks
// that process groups name.
Result<uint32_t> WorldOf(const std::vector<KinetoTrace>& traces,
                         const std::vector<TraceSource>& profiles) {
  PRISM_CHECK(!traces.empty());
  int64_t world = traces.front().world;
  for (size_t i = 0; i < traces.size(); ++i) {
    if (traces[i].world != world) {
      return BadFile(fmt::format("{}: is from a job of {} ranks, but {} is from one of {}",
                                 profiles[i].name, traces[i].world, profiles.front().name, world));
    }
  }
  if (world <= 0) {
    world = std::ssize(traces);
    for (const KinetoTrace& trace : traces) {
      world = std::max(world, HighestRank(trace) + 1);
    }
  }
  if (world > graph::kMaxRanks) {
    return BadFile(fmt::format("{}: names {} ranks of its job; at most {} are possible",
                               profiles.front().name, world, graph::kMaxRanks));
  }
  return static_cast<uint32_t>(world);
}

}  // namespace

Result<ImportResult> ImportKinetoBytes(const std::vector<TraceSource>& profiles,
                                       const ImportOptions& options) {
  std::vector<KinetoTrace> traces;
  int64_t bytes = 0;
  for (const TraceSource& profile : profiles) {
    PRISM_ASSIGN_OR_RETURN(KinetoTrace trace, ReadKinetoTrace(profile.bytes, profile.name));
    traces.push_back(std::move(trace));
    bytes += static_cast<int64_t>(profile.bytes.size());
  }
  PRISM_ASSIGN_OR_RETURN(const uint32_t world, WorldOf(traces, profiles));
  const uint32_t ranks =
      options.target_gpus > 0 ? static_cast<uint32_t>(options.target_gpus) : world;
  GraphAssembly assembly(ranks);
  KinetoImport import(world, ranks, &assembly);
  for (size_t i = 0; i < traces.size(); ++i) {
    const int64_t rank = traces[i].rank >= 0 ? traces[i].rank : static_cast<int64_t>(i);
    PRISM_RETURN_IF_ERROR(import.AddProfile(rank, traces[i], profiles[i].name));
  }
  PRISM_RETURN_IF_ERROR(import.AddRanks());
  ImportResult result = import.TakeResult();
  result.bytes_read = bytes;
  result.notes.Add(
      fmt::format(
          "profiles do not say how many ranks their job has; taken as {}, the number they name",
          world),
      traces.front().world > 0 ? 0 : 1);
  graph::ParallelSizes parallel;
  parallel.dp = static_cast<int32_t>(ranks);
  assembly.SetParallel(parallel);
  return FinishImport(std::move(assembly), options, std::move(result), profiles.front().name)
      .result;
}

Result<ImportResult> ImportKineto(const std::vector<std::string>& files,
                                  const ImportOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const SourceFiles opened, SourceFiles::Open(files, kMaxTraceBytes));
  return ImportKinetoBytes(opened.sources(), options);
}

}  // namespace prism::slicer
