#include "replayer/delta/delta_replay.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/rank_slots.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/parameters.h"
#include "replayer/perturb/jitter.h"

namespace prism::replayer {
namespace {

// Noise of all ranks, as the partition adds it up.
Jitter JitterOf(const ReplayOptions& options) {
  Jitter jitter;
  for (const Perturbation& perturbation : options.perturbations) {
    jitter.Add(perturbation);
  }
  return jitter;
}

// Slow hosts form separate classes, and interruptions at fixed times depend on more than the order
// of actions.
bool IsInRecording(const Perturbation& perturbation) {
  return perturbation.kind != PerturbationKind::kHost &&
         perturbation.kind != PerturbationKind::kPeriodic;
}

bool AllInRecording(const ReplayOptions& options) {
  return std::all_of(options.perturbations.begin(), options.perturbations.end(), IsInRecording);
}

ReplayOptions Recordable(ReplayOptions options) {
  std::erase_if(options.perturbations,
                [](const Perturbation& perturbation) { return !IsInRecording(perturbation); });
  return options;
}

// Whether the ranks of both do the same things in the same order and wait for the same: at most
// durations and host costs differ.
bool DiffersInTimesAlone(const graph::Program& a, const graph::Program& b) {
  constexpr int kTimes = graph::kDurationFixed | graph::kLaunchedWithPrevious;
  if (a.kind != b.kind || a.stream != b.stream || a.comm_slot != b.comm_slot || a.dep != b.dep ||
      a.collectives != b.collectives || a.peer_groups != b.peer_groups ||
      a.stream_count != b.stream_count || a.comm_slot_count != b.comm_slot_count ||
      a.peer_slot_count != b.peer_slot_count) {
    return false;
  }
  for (uint32_t op = 0; op < a.size(); ++op) {
    const bool transfers =
        a.kind[op] == graph::OpKind::kCollective || a.kind[op] == graph::OpKind::kPeerGroup;
    if (((a.flags[op] ^ b.flags[op]) & ~kTimes) != 0 ||
        (transfers && (a.signature[op] != b.signature[op] || a.flags[op] != b.flags[op] ||
                       a.value[op] != b.value[op]))) {
      return false;
    }
  }
  return true;
}

bool Kills(const ReplayOptions& options) {
  return std::any_of(options.perturbations.begin(), options.perturbations.end(),
                     [](const Perturbation& p) { return p.kind == PerturbationKind::kKill; });
}

}  // namespace

DeltaReplay::DeltaReplay(const graph::Graph& graph, ReplayOptions options, Partition partition)
    : graph_(graph),
      options_(std::move(options)),
      partition_(std::move(partition)),
      cost_(graph.cluster),
      totals_of_(graph.ranks.size(), kNone) {
}

Result<std::unique_ptr<DeltaReplay>> DeltaReplay::Record(const graph::Graph& graph,
                                                         const ReplayOptions& options,
                                                         const DeltaSettings& settings) {
  if (!options.traced.empty()) {
    return InvalidArgument("a replay after an edit has no timelines of ranks");
  }
  if (options.network != NetworkModel::kAnalytic) {
    return InvalidArgument(
        "a replay after an edit does not support the flow network; use the analytic one");
  }
  PRISM_ASSIGN_OR_RETURN(ReplayResult result, Replay(graph, options));
  const ComputeCost compute(graph.cluster);
  PRISM_ASSIGN_OR_RETURN(
      Partition partition,
      MakePartition(graph, Recordable(options), {}, OpCostsOf(graph, graph.cluster, &compute)));
  std::unique_ptr<DeltaReplay> delta(new DeltaReplay(graph, options, std::move(partition)));
  delta->result_ = std::move(result);
  delta->edited_ = delta->result_;
  std::optional<RecordedOrder> schedule =
      MakeSchedule(delta->partition_, delta->options_, delta->cost_);
  PRISM_CHECK(schedule.has_value());
  delta->schedule_ = std::move(*schedule);
  const double slowdown = graph.cluster.parameters.Value("overlap.compute_slowdown");
  const BaselineSource source = {delta->partition_, delta->schedule_, delta->options_, delta->cost_,
                                 slowdown};
  delta->baseline_ = std::make_unique<Baseline>(source, settings.holds_per_checkpoint);
  for (const RankClass& rank_class : delta->partition_.classes) {
    delta->ranks_of_.emplace_back(rank_class.lanes.size());
  }
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    delta->ranks_of_[delta->partition_.class_of[rank]][delta->partition_.lane_of[rank]].push_back(
        rank);
  }
  delta->sweep_ = std::make_unique<Sweep>(
      RecordedJob{delta->graph_, delta->options_, delta->partition_, delta->schedule_,
                  *delta->baseline_, slowdown, delta->ranks_of_},
      settings.most_work);
  return delta;
}

// Why actions and meetings of the edited job may come in a different order than recorded; empty if
// they do not.
std::string_view DeltaReplay::WhyOtherOrder(const Edit& edit) const {
  for (const graph::Role& role : graph_.roles) {
    if (edit.ReplacesProgram(role) &&
        (role.stage != edit.role_program->stage ||
         !DiffersInTimesAlone(role.program, edit.role_program->program))) {
      return "the program does other things";
    }
  }
  const bool other_durations = edit.cluster || edit.role_program || !edit.programs.empty();
  if (other_durations && std::any_of(partition_.plans.begin(), partition_.plans.end(),
                                     [](const RolePlan& plan) { return plan.first_by_time; })) {
    return "the stream that tells the iteration is chosen by durations";
  }
  const char* eager = "p2p.eager_bytes";
  if (edit.cluster &&
      edit.cluster->parameters.Value(eager) != graph_.cluster.parameters.Value(eager)) {
    return "another eager limit";
  }
  const ReplayOptions& other = edit.options ? *edit.options : options_;
  if (!AllInRecording(options_) || !AllInRecording(other)) {
    return "slow hosts or devices taken away at regular times";
  }
  if (other.iterations != options_.iterations || other.breakdown != options_.breakdown) {
    return "other iterations, or a breakdown in one of both alone";
  }
  if (JitterOf(other) != JitterOf(options_) ||
      (JitterOf(options_).any() && other.seed != options_.seed)) {
    return "other noise";
  }
  return Kills(other) ? "a killed rank" : "";
}

Result<DeltaResult> DeltaReplay::Evaluate(const Edit& edit) {
  if (edit.cluster && !CheckParameters(edit.cluster->parameters).empty()) {
    return InvalidArgument("edit of the cluster: " +
                           CheckParameters(edit.cluster->parameters).front());
  }
  PRISM_RETURN_IF_ERROR(CheckProgramEdits(graph_, edit));
  if (const std::string_view why = WhyOtherOrder(edit); !why.empty()) {
    return ReplayInFull(edit, why);
  }
  if (edit.options) {
    PRISM_RETURN_IF_ERROR(CheckOptions(graph_, *edit.options));
  }
  const std::vector<Variant> variants = MakeVariants(
      RecordedJob{graph_, options_, partition_, schedule_, *baseline_,
                  graph_.cluster.parameters.Value("overlap.compute_slowdown"), ranks_of_},
      edit);
  const std::optional<std::vector<RankTotals>> totals = sweep_->Run(variants);
  if (!totals) {
    return ReplayInFull(edit, "so much differs that it takes less time");
  }
  TakeBack();
  DeltaResult result;
  result.executed = sweep_->executed();
  result.reached = sweep_->reached();
  result.changed_ranks = SumRanks(*totals);
  SumIterations(*totals);
  SumCommunicators(*totals);
  result.replay = &edited_;
  return result;
}

Result<DeltaResult> DeltaReplay::ReplayInFull(const Edit& edit, std::string_view why) {
  DeltaResult result;
  PRISM_ASSIGN_OR_RETURN(const EditedJob job, ApplyEdit(graph_, options_, edit));
  PRISM_ASSIGN_OR_RETURN(full_, Replay(job.graph, job.options));
  result.replay = &full_;
  result.full = true;
  result.why_full = why;
  return result;
}

// The result of the last edit becomes that of the recording again.
void DeltaReplay::TakeBack() {
  for (uint32_t rank : changed_ranks_) {
    edited_.ranks[rank] = result_.ranks[rank];
  }
  for (uint32_t comm : changed_comms_) {
    edited_.communicators[comm] = result_.communicators[comm];
  }
  edited_.iteration_ns = result_.iteration_ns;
  changed_ranks_.clear();
  changed_comms_.clear();
}

std::span<const uint32_t> DeltaReplay::RanksOf(const RankTotals& totals) const {
  if (totals.of_lane) {
    return ranks_of_[partition_.class_of[totals.rank]][partition_.lane_of[totals.rank]];
  }
  return {&totals.rank, 1};
}

const LaneTimes& DeltaReplay::Before(uint32_t rank) const {
  return baseline_->of_class(partition_.class_of[rank]).ends[partition_.lane_of[rank]];
}

// How many differ.
int64_t DeltaReplay::SumRanks(const std::vector<RankTotals>& all) {
  for (const RankTotals& totals : all) {
    const size_t last = totals.starts.size() - 1;
    const RankTimes times = TimesOf(totals.covered, totals.starts[last] - totals.starts[last - 1]);
    for (uint32_t rank : RanksOf(totals)) {
      edited_.ranks[rank] = times;
      changed_ranks_.push_back(rank);
    }
  }
  return std::ssize(changed_ranks_);
}

void DeltaReplay::SumIterations(const std::vector<RankTotals>& all) {
  if (all.empty()) {
    return;
  }
  std::vector<DurationNs>& iterations = edited_.iteration_ns;
  std::fill(iterations.begin(), iterations.end(), 0);
  const auto add = [&](const std::vector<TimeNs>& starts) {
    for (size_t i = 0; i < iterations.size(); ++i) {
      iterations[i] = std::max(iterations[i], starts[i + 1] - starts[i]);
    }
  };
  std::vector<std::vector<size_t>> left;  // by class and lane: number of unchanged ranks
  for (const auto& of_class : ranks_of_) {
    std::vector<size_t>& lanes = left.emplace_back();
    for (const std::vector<uint32_t>& ranks : of_class) {
      lanes.push_back(ranks.size());
    }
  }
  for (const RankTotals& totals : all) {
    left[partition_.class_of[totals.rank]][partition_.lane_of[totals.rank]] -=
        RanksOf(totals).size();
    add(totals.starts);
  }
  for (uint32_t c = 0; c < left.size(); ++c) {
    for (uint32_t lane = 0; lane < left[c].size(); ++lane) {
      if (left[c][lane] > 0) {
        add(baseline_->of_class(c).ends[lane].starts);
      }
    }
  }
}

// Communicators of ranks whose traffic differs. Where whole lanes are edited, communicators with
// equal times are summed once.
void DeltaReplay::SumCommunicators(const std::vector<RankTotals>& all) {
  std::vector<std::pair<uint32_t, uint32_t>> touched;  // (its representative, communicator)
  for (uint32_t i = 0; i < all.size(); ++i) {
    const RankTotals& totals = all[i];
    const LaneTimes& before = Before(totals.rank);
    for (uint32_t rank : RanksOf(totals)) {
      totals_of_[rank] = i;
    }
    for (size_t slot = 0; slot < totals.transfer_ns.size(); ++slot) {
      if (totals.transfer_ns[slot] == before.transfer_ns[slot] &&
          totals.wait_ns[slot] == before.wait_ns[slot]) {
        continue;
      }
      for (uint32_t rank : RanksOf(totals)) {
        const uint32_t comm = graph_.ranks.comms(Rank(rank))[slot];
        touched.emplace_back(sweep_->CommStandsFor(comm), comm);
      }
    }
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (size_t i = 0; i < touched.size(); ++i) {
    const auto [stands, comm] = touched[i];
    const bool alike = i > 0 && touched[i - 1].first == stands;
    CommunicatorTimes& times = edited_.communicators[comm];
    const CommunicatorTimes summed =
        alike ? edited_.communicators[touched[i - 1].second] : TimesOfMembers(all, comm);
    times.transfer_ns = summed.transfer_ns;
    times.wait_ns_max = summed.wait_ns_max;
    changed_comms_.push_back(comm);
  }
  for (uint32_t rank : changed_ranks_) {
    totals_of_[rank] = kNone;
  }
}

// The longest of all its members.
CommunicatorTimes DeltaReplay::TimesOfMembers(const std::vector<RankTotals>& all,
                                              uint32_t comm) const {
  CommunicatorTimes times;
  for (uint32_t member : graph_.communicators.members_of(CommId(comm))) {
    const uint16_t slot = graph::CommSlotOf(graph_.ranks, Rank(member), CommId(comm));
    if (slot == graph::kNoSlot) {
      continue;  // a member that never uses it
    }
    const uint32_t changed = totals_of_[member];
    const LaneTimes& before = Before(member);
    const auto& transfer = changed == kNone ? before.transfer_ns : all[changed].transfer_ns;
    const auto& wait = changed == kNone ? before.wait_ns : all[changed].wait_ns;
    times.transfer_ns = std::max(times.transfer_ns, transfer[slot]);
    times.wait_ns_max = std::max(times.wait_ns_max, wait[slot]);
  }
  return times;
}

}  // namespace prism::replayer
