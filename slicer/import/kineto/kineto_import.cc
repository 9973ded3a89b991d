#include "slicer/import/kineto/kineto_import.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/check.h"
#include "graph/base/parse_number.h"
#include "graph/base/units.h"
#include "graph/validate/limits.h"
#include "slicer/import/kineto/execution_trace.h"
#include "slicer/import/kineto/measured_transfers.h"
#include "slicer/import/kineto/step_program.h"

namespace prism::slicer {
namespace {

// Of its step: what a rank waits less than others that enters collectives clearly later.
constexpr double kLeastLate = 0.1;

// Reads one profile after the other, then builds all ranks.
class KinetoImport {
 public:
  KinetoImport(const KinetoChoice& choice, uint32_t world, uint32_t ranks, GraphAssembly* assembly)
      : choice_(choice), world_(world), ranks_(ranks), assembly_(*assembly) {}

  Status AddProfile(int64_t of_rank, const KinetoTrace& trace, const std::string& file) {
    const auto rank = static_cast<uint32_t>(of_rank);
    if (of_rank >= world_) {
      return BadFile(
          fmt::format("{}: is a profile of rank {}, but the job has {}", file, of_rank, world_));
    }
    if (program_of_.contains(rank)) {
      return BadFile(fmt::format("{}: is a second profile of rank {}; name only one", file, rank));
    }
    const HostCalls calls(trace);
    PRISM_ASSIGN_OR_RETURN(const KinetoRange step, StepOf(trace, calls, file));
    PRISM_ASSIGN_OR_RETURN(StepProgram program,
                           ProgramOfStep({trace, calls, step, rank, world_}, file, &assembly_));
    result_.notes.Add(program.notes);
    result_.notes.Add(fmt::format("the step used is {} of {}, {}", step.name, trace.steps.size(),
                                  choice_.step >= 0 || choice_.number > 0
                                      ? "as asked for"
                                      : "that of median duration in the first profile"),
                      trace.steps.size() > 1 ? 1 : 0);
    result_.notes.Add("names of more than 4,096 bytes are cut there", trace.long_names);
    result_.notes.Add("calls and GPU tasks that are in a profile twice count once", trace.repeated);
    result_.notes.Add("events whose times are no numbers, or negative, are left out",
                      trace.untimed);
    if (result_.gpu.empty()) {
      result_.gpu = trace.gpu;
      result_.gpu_bytes = trace.gpu_bytes;
    }
    result_.notes.Add("profiles mark no steps and count as one step each",
                      trace.steps.empty() ? 1 : 0);
    result_.notes.Add("profiles are cut off and end early", trace.is_cut_off ? 1 : 0);
    result_.notes.Add(fmt::format("profiles were made on {}; their kernels keep the measured times",
                                  trace.gpu.empty() ? "a GPU without a name" : trace.gpu));
    result_.tasks += program.tasks;
    program_of_[rank] = programs_.size();
    programs_.push_back(std::move(program));
    steps_ns_.push_back(step.duration_ns);
    return OkStatus();
  }

  // `paired`: whether sends and receives may be paired.
  Status AddRanks(bool paired) {
    result_.notes.Add("all-to-alls whose ranks move different amounts have the largest amount",
                      EvenOutExchanges(&programs_));
    ShareShortestTimes(&programs_);
    NoteClocks();
    FindLate();
    LeaveGrowingToCluster();
    Pair(paired);
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
      StepProgram& step = programs_[profile];
      step.program.comm_slot_count = static_cast<uint16_t>(step.groups.size());
      step.program.peer_slot_count = static_cast<uint16_t>(step.peers.size());
      assembly_.AddRank(Rank(rank),
                        {std::move(step.program), std::move(comms), std::move(step.peers), 0});
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

  // Profiles that enter collectives later than others do; empty: none does by much.
  [[nodiscard]] std::vector<graph::Warning> LateRanks() const { return late_; }

 private:
  void Pair(bool paired) {
    const bool all = paired && ranks_ == world_ && programs_.size() == world_;
    int64_t unpaired = 0;
    for (const StepProgram& step : programs_) {
      unpaired += all ? 0 : std::ssize(step.messages);
    }
    unpaired += all ? PairMessages(program_of_, &programs_) : 0;
    result_.notes.Add(
        "messages between two ranks whose other end is not among the profiles are kernels with "
        "their shortest time in any step, and wait for no other rank",
        unpaired);
  }

  void NoteClocks() {
    const std::vector<DurationNs> offsets = ClockOffsets(program_of_, world_, programs_);
    const auto [least, most] = std::ranges::minmax(offsets);
    if (most - least > kClockSkewNs) {
      result_.notes.Add(
          fmt::format("clocks of the profiles differ by up to {}; their ranks are "
                      "compared by the ends of their collectives",
                      FormatDuration(most - least)));
    }
  }

  void FindLate() {
    const std::vector<DurationNs> late = Lateness(program_of_, world_, programs_);
    std::vector<std::pair<DurationNs, uint32_t>> ranks;
    for (const auto& [rank, index] : program_of_) {
      if (static_cast<double>(late[index]) > kLeastLate * static_cast<double>(steps_ns_[index])) {
        ranks.emplace_back(-late[index], rank);
      }
    }
    std::ranges::sort(ranks);
    std::vector<std::string> texts;
    for (const auto& [less, rank] : ranks) {
      texts.push_back(fmt::format("rank {}: {:.6g} ms", rank,
                                  -static_cast<double>(less) / static_cast<double>(kNsPerMs)));
    }
    if (!texts.empty()) {
      late_ = {{.code = "late_ranks",
                .count = std::ssize(texts),
                .example = fmt::format("{}", fmt::join(texts, ", "))}};
    }
  }

  // Measured times are those of groups of the measured size.
  void LeaveGrowingToCluster() {
    for (StepProgram& step : programs_) {
      graph::Program& program = step.program;
      for (uint32_t op = 0; op < program.size(); ++op) {
        if (ranks_ != world_ && program.kind[op] == graph::OpKind::kCollective &&
            step.groups[program.comm_slot[op]].grows()) {
          program.flags[op] &= ~graph::kDurationFixed;
          program.value.Set(op, 0);
        }
      }
    }
  }

  // Which groups another number of ranks makes larger or smaller.
  void NoteGrowth() {
    std::set<std::string> growing;
    for (const StepProgram& program : programs_) {
      for (const ProcessAxis& axis : program.groups) {
        if (axis.grows()) {
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

  // The first profile's typical step, for every profile that contains it; or what was asked for.
  Result<KinetoRange> StepOf(const KinetoTrace& trace,
                             const HostCalls& calls,
                             const std::string& file) {
    if (choice_.step >= 0 || !choice_.range.empty()) {
      return AskedStep(trace, calls, file);
    }
    const auto same = std::ranges::find(trace.steps, step_name_, &KinetoRange::name);
    if (same != trace.steps.end() && calls.LaunchesIn(same->begin_ns, same->end_ns()).seen > 0) {
      return *same;
    }
    KinetoRange step = TypicalStep(trace, calls);
    result_.notes.Add("profiles have other step numbers than the first one",
                      step_name_.empty() || trace.steps.empty() ? 0 : 1);
    if (step_name_.empty()) {
      step_name_ = step.name;
    }
    return step;
  }

  Result<KinetoRange> AskedStep(const KinetoTrace& trace,
                                const HostCalls& calls,
                                const std::string& file) const {
    const std::string name =
        choice_.step >= 0 ? fmt::format("ProfilerStep#{}", choice_.step) : choice_.range;
    const auto named = std::ranges::find(trace.steps, name, &KinetoRange::name);
    if (named == trace.steps.end() || choice_.number > std::ssize(trace.steps)) {
      const std::string has = choice_.range.empty() && !trace.steps.empty()
                                  ? fmt::format("; its {} steps are {} to {}", trace.steps.size(),
                                                trace.steps.front().name, trace.steps.back().name)
                              : named == trace.steps.end()
                                  ? "; name a record_function range of the host"
                                  : fmt::format("; it has {} of them", trace.steps.size());
      return BadFile(
          fmt::format("{}: has no range '{}'{}{}", file, name,
                      choice_.number > 0 ? fmt::format(" number {}", choice_.number) : "", has));
    }
    if (choice_.step >= 0) {
      return *named;
    }
    return choice_.number > 0 ? trace.steps[static_cast<size_t>(choice_.number - 1)]
                              : TypicalStep(trace, calls);
  }

  // The profile of the rank or of the next lower one that has one, else the first.
  [[nodiscard]] size_t ProfileOf(uint32_t rank) const {
    const auto above = program_of_.upper_bound(rank);
    return above == program_of_.begin() ? above->second : std::prev(above)->second;
  }

  Result<std::vector<uint32_t>> CommunicatorsOf(const StepProgram& program, Rank rank) {
    std::vector<uint32_t> comms;
    for (const ProcessAxis& axis : program.groups) {
      const auto at_rank = of_rank_.find({axis.Key(), rank.value()});
      if (at_rank != of_rank_.end()) {
        comms.push_back(at_rank->second);
        continue;
      }
      const std::optional<std::vector<uint32_t>> group = GroupOn(axis, rank, ranks_, world_);
      if (!group) {
        return InvalidArgument(fmt::format(
            "{} ranks are not a multiple of process group '{}' ({}); use another --target-gpus",
            ranks_, axis.name,
            axis.members.empty() ? fmt::format("{} ranks, {} apart", axis.digits.back().second,
                                               axis.digits.back().first)
                                 : fmt::format("of a job of {} ranks", world_)));
      }
      const uint32_t comm = assembly_.Communicator(axis.name.empty() ? "all" : "pg " + axis.name,
                                                   fmt::format("{}", axis.ordinal), *group);
      for (const uint32_t member : *group) {
        of_rank_[{axis.Key(), member}] = comm;
      }
      comms.push_back(comm);
    }
    return comms;
  }

  const KinetoChoice& choice_;
  uint32_t world_;
  uint32_t ranks_;
  GraphAssembly& assembly_;
  std::map<uint32_t, size_t> program_of_;  // by profiled rank
  std::vector<StepProgram> programs_;
  std::vector<DurationNs> steps_ns_;  // by program: in the profile
  std::vector<graph::Warning> late_;
  std::map<std::pair<AxisKey, uint32_t>, uint32_t> of_rank_;  // communicators by axis and rank
  std::string step_name_;                                     // of the first profile
  ImportResult result_;
};

// What the name of a file says after "rank": profiles that do not state their rank are often called
// so. -1: nothing.
int64_t RankInName(std::string_view name) {
  constexpr std::string_view kWord = "rank";
  name.remove_prefix(name.find_last_of('/') + 1);
  const size_t word = name.rfind(kWord);
  if (word == std::string_view::npos) {
    return -1;
  }
  std::string_view digits = name.substr(word + kWord.size());
  digits.remove_prefix(digits.starts_with('_') || digits.starts_with('-') ? 1 : 0);
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  int64_t rank = -1;
  return ParseNumber(digits, &rank) ? rank : -1;
}

// The job that was profiled.
struct ProfiledJob {
  std::vector<int64_t> ranks;  // by profile
  uint32_t world = 0;
};

// Those that the profiles state; if none does, those of the names of the files if all have one, or
// the order.
std::vector<int64_t> RanksOf(const ReadProfiles& profiles, Notes* notes) {
  std::vector<int64_t> stated;
  std::set<int64_t> named;
  for (size_t i = 0; i < profiles.traces.size(); ++i) {
    stated.push_back(profiles.traces[i].rank);
    named.insert(RankInName(profiles.names[i]));
  }
  const bool none = std::ranges::all_of(stated, [](int64_t rank) { return rank < 0; });
  const bool by_name = none && named.size() == stated.size() && !named.contains(-1);
  for (size_t i = 0; i < stated.size(); ++i) {
    stated[i] = stated[i] >= 0 ? stated[i]
                : by_name      ? RankInName(profiles.names[i])
                               : static_cast<int64_t>(i);
  }
  notes->Add("profiles do not say which rank they are of; the names of their files do",
             by_name ? std::ssize(stated) : 0);
  return stated;
}

// The highest rank that a profile names, its own included; -1: none.
int64_t HighestRank(const KinetoTrace& trace, int64_t rank) {
  int64_t highest = rank;
  for (const KinetoCollective& noted : trace.collectives) {
    if (!noted.ranks().empty()) {
      highest = std::max<int64_t>(highest, noted.ranks().back());
    }
  }
  return highest;
}

// The ranks of the job that was profiled: as the files say, else the number of files, or the ranks
// that process groups name.
Result<uint32_t> WorldOf(const ReadProfiles& profiles, const std::vector<int64_t>& of_profile) {
  const std::vector<KinetoTrace>& traces = profiles.traces;
  PRISM_CHECK(!traces.empty());
  int64_t world = traces.front().world;
  for (size_t i = 0; i < traces.size(); ++i) {
    if (traces[i].world != world) {
      return BadFile(fmt::format("{}: is from a job of {} ranks, but {} is from one of {}",
                                 profiles.names[i], traces[i].world, profiles.names.front(),
                                 world));
    }
  }
  if (world <= 0) {
    world = std::ssize(traces);
    for (size_t i = 0; i < traces.size(); ++i) {
      world = std::max(world, HighestRank(traces[i], of_profile[i]) + 1);
    }
  }
  if (world > graph::kMaxRanks) {
    return BadFile(fmt::format("{}: names {} ranks of its job; at most {} are possible",
                               profiles.names.front(), world, graph::kMaxRanks));
  }
  return static_cast<uint32_t>(world);
}

// `paired`: whether sends and receives may be paired.
ImportAttempt Attempt(const ReadProfiles& profiles,
                      const ProfiledJob& job,
                      const ImportOptions& options,
                      const KinetoChoice& choice,
                      bool paired) {
  const std::vector<KinetoTrace>& traces = profiles.traces;
  const uint32_t ranks =
      options.target_gpus > 0 ? static_cast<uint32_t>(options.target_gpus) : job.world;
  GraphAssembly assembly(ranks);
  KinetoImport import(choice, job.world, ranks, &assembly);
  for (size_t i = 0; i < traces.size(); ++i) {
    if (Status added = import.AddProfile(job.ranks[i], traces[i], profiles.names[i]); !added.ok()) {
      return {std::move(added)};
    }
  }
  if (Status added = import.AddRanks(paired); !added.ok()) {
    return {std::move(added)};
  }
  ImportResult result = import.TakeResult();
  result.bytes_read = profiles.bytes;
  result.notes.Add("matrix products have their shapes from execution traces", profiles.joined);
  result.notes.Add(
      fmt::format(
          "profiles do not say how many ranks their job has; taken as {}, the number they name",
          job.world),
      traces.front().world > 0 ? 0 : 1);
  graph::ParallelSizes parallel;
  parallel.dp = static_cast<int32_t>(ranks);
  assembly.SetParallel(parallel);
  ImportAttempt attempt =
      FinishImport(std::move(assembly), options, std::move(result), profiles.names.front());
  if (attempt.result.ok()) {
    attempt.result->graph.warnings = import.LateRanks();
  }
  return attempt;
}

// In memory, or a file that is read when its turn comes.
struct Source {
  std::string name;
  std::optional<std::string_view> bytes;
};

bool IsExecuted(const Source& source) {
  constexpr size_t kLook = 64;
  return source.bytes ? IsExecutionTrace(*source.bytes)
                      : IsExecutionTrace(BeginningOf(source.name, kLook));
}

// The k-th execution trace belongs to the k-th profile.
Status JoinInOrder(const std::vector<const Source*>& executed,
                   const KinetoChoice& choice,
                   ReadProfiles* read) {
  for (size_t i = 0; i < executed.size(); ++i) {
    const Source& source = *executed[i];
    if (i >= read->traces.size()) {
      return BadFile(fmt::format(
          "{}: is an execution trace without times; name the profile of the same run with it",
          source.name));
    }
    KinetoTrace& profile = read->traces[i];
    KinetoRanges steps = profile.steps;
    const Result<ExecutionTrace> trace = source.bytes
                                             ? ReadExecutionTrace(*source.bytes, source.name)
                                             : ReadExecutionFile(source.name, &read->bytes);
    PRISM_RETURN_IF_ERROR(trace.status());
    PRISM_ASSIGN_OR_RETURN(const int64_t joined,
                           JoinExecutionTrace(*trace, source.name, read->names[i], &profile));
    if (choice.step >= 0 || !choice.range.empty()) {
      profile.steps = std::move(steps);
    }
    read->joined += joined;
    read->bytes += source.bytes ? std::ssize(*source.bytes) : 0;
  }
  return OkStatus();
}

Result<ImportResult> ImportSources(const std::vector<Source>& sources,
                                   const ImportOptions& options,
                                   const KinetoChoice& choice) {
  ReadProfiles read;
  std::vector<const Source*> executed;
  for (const Source& source : sources) {
    if (IsExecuted(source)) {
      executed.push_back(&source);
      continue;
    }
    Result<KinetoTrace> trace =
        source.bytes ? ReadKinetoTrace(*source.bytes, source.name, choice.range)
                     : ReadKinetoFile(source.name, choice.range, KinetoParts::kCalls, &read.bytes);
    PRISM_RETURN_IF_ERROR(trace.status());
    read.traces.push_back(*std::move(trace));
    read.names.push_back(source.name);
    read.bytes += source.bytes ? std::ssize(*source.bytes) : 0;
  }
  PRISM_RETURN_IF_ERROR(JoinInOrder(executed, choice, &read));
  return ImportTraces(read, options, choice);
}

}  // namespace

Result<ImportResult> ImportTraces(const ReadProfiles& profiles,
                                  const ImportOptions& options,
                                  const KinetoChoice& choice) {
  Notes notes;
  ProfiledJob job = {RanksOf(profiles, &notes), 0};
  PRISM_ASSIGN_OR_RETURN(job.world, WorldOf(profiles, job.ranks));
  ImportAttempt attempt = Attempt(profiles, job, options, choice, true);
  if (!attempt.result.ok() && attempt.stalls) {
    attempt = Attempt(profiles, job, options, choice, false);
  }
  if (attempt.result.ok()) {
    attempt.result->notes.Add(notes);
  }
  return std::move(attempt.result);
}

Result<ImportResult> ImportKinetoBytes(const std::vector<TraceSource>& profiles,
                                       const ImportOptions& options,
                                       const KinetoChoice& choice) {
  std::vector<Source> sources;
  for (const TraceSource& profile : profiles) {
    sources.push_back({profile.name, profile.bytes});
  }
  return ImportSources(sources, options, choice);
}

Result<ImportResult> ImportKineto(const std::vector<std::string>& files,
                                  const ImportOptions& options,
                                  const KinetoChoice& choice) {
  std::vector<Source> sources;
  for (const std::string& file : files) {
    sources.push_back({file, std::nullopt});
  }
  return ImportSources(sources, options, choice);
}

}  // namespace prism::slicer
