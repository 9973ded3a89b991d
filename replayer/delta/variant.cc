#include "replayer/delta/variant.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "replayer/engine/engine.h"

namespace prism::replayer {
namespace {

// Adds the places of one class at which durations differ from the baseline's.
class ChangeFinder {
 public:
  ChangeFinder(const ClassSchedule& schedule, std::vector<uint32_t>* changed)
      : schedule_(schedule), changed_(*changed) {}

  // Adds a step of a stream, in every iteration: the actions of a stream are in the order of its
  // steps.
  void Step(uint16_t stream, uint32_t step, int32_t iterations) {
    const std::vector<uint32_t>& positions = schedule_.of_stream[stream];
    for (int32_t iteration = 0; iteration < iterations; ++iteration) {
      const auto after =
          std::partition_point(positions.begin(), positions.end(), [&](uint32_t position) {
            const Action& action = schedule_.actions[position].action;
            return std::pair(action.iteration, action.first) <= std::pair(iteration, step);
          });
      changed_.push_back(*std::prev(after));
    }
  }

  void Steps(const RolePlan& before, const RolePlan& after) {
    if (before.host_ns != after.host_ns) {
      // A rank that does nothing on any stream still begins its iterations at different times.
      changed_.resize(std::max<size_t>(schedule_.actions.size(), 1));
      std::iota(changed_.begin(), changed_.end(), 0U);
      return;
    }
    for (uint16_t stream = 0; stream < before.streams.size(); ++stream) {
      for (uint32_t position : schedule_.of_stream[stream]) {
        const Action& action = schedule_.actions[position].action;
        for (uint32_t step = action.first; action.kind == ActionKind::kWork && step < action.end;
             ++step) {
          if (before.streams[stream][step].duration != after.streams[stream][step].duration) {
            changed_.push_back(position);
            break;
          }
        }
      }
    }
  }

  void Charges(const RolePlan& plan,
               const std::vector<DurationNs>& before,
               const std::vector<DurationNs>& after) {
    const auto differs = [&](uint32_t charge) {
      return charge != kNone && before[charge] != after[charge];
    };
    for (uint32_t i = 0; before != after && i < schedule_.actions.size(); ++i) {
      const Action& action = schedule_.actions[i].action;
      if ((action.kind == ActionKind::kHostWait && differs(plan.host_waits[action.first].charge)) ||
          (action.kind == ActionKind::kWait &&
           differs(plan.streams[action.stream][action.first].charge))) {
        changed_.push_back(i);
      }
    }
  }

  // True when any transfer differs.
  bool Transfers(const RolePlan& plan, const TransferCosts& before, const TransferCosts& after) {
    bool any = false;
    for (const ScheduledHold& hold : schedule_.holds) {
      for (uint32_t t = hold.begin; t < hold.end; ++t) {
        const ScheduledTransfer& transfer = schedule_.transfers[t];
        const uint32_t i = transfer.index;
        const bool same = transfer.side == TransferSide::kCollective
                              ? before.call_ns[i] == after.call_ns[i] &&
                                    before.transfer_ns[plan.calls[i].transfer] ==
                                        after.transfer_ns[plan.calls[i].transfer]
                              : before.post_ns[i] == after.post_ns[i];
        if (!same) {
          changed_.push_back(hold.arrive);
          any = true;
          break;
        }
      }
    }
    return any;
  }

  void Finish() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  }

 private:
  const ClassSchedule& schedule_;
  std::vector<uint32_t>& changed_;
};

// What the ranks of one variant have in common.
struct VariantKey {
  uint32_t class_index = 0;
  uint32_t lane = 0;
  std::vector<uint32_t> edits;  // of programs, ascending
  double compute_factor = 1;
  DurationNs delay_ns = 0;
  std::optional<ClassWiring> wiring;  // nothing: as before

  auto operator<=>(const VariantKey&) const = default;
};

class VariantMaker {
 public:
  VariantMaker(const RecordedJob& job, const Edit& edit)
      : job_(job),
        edit_(edit),
        options_(edit.options ? *edit.options : job.options),
        cluster_(edit.cluster ? *edit.cluster : job.graph.cluster) {}

  std::vector<Variant> Run() && {
    if (edit_.options || edit_.cluster || edit_.role_program) {
      GroupAllRanks();
    } else {
      GroupEditedRanks();
    }
    std::vector<Variant> variants;
    for (auto& [key, ranks] : groups_) {
      Variant variant = Make(key);
      if (variant.changed.empty()) {
        continue;
      }
      variant.ranks = std::move(ranks);
      variants.push_back(std::move(variant));
    }
    return variants;
  }

 private:
  [[nodiscard]] std::map<uint32_t, std::vector<uint32_t>> EditsOfRanks() const {
    std::map<uint32_t, std::vector<uint32_t>> edits;
    for (uint32_t e = 0; e < edit_.programs.size(); ++e) {
      for (Rank rank : edit_.programs[e].ranks) {
        edits[rank.value()].push_back(e);
      }
    }
    return edits;
  }

  // Only edits of programs: the ranks they name, and lane by lane those of whole roles.
  void GroupEditedRanks() {
    const std::map<uint32_t, std::vector<uint32_t>> named = EditsOfRanks();
    for (const auto& [rank, edits] : named) {
      groups_[KeyOf(rank, edits)].push_back(rank);
    }
    for (uint32_t c = 0; c < job_.partition.classes.size(); ++c) {
      if (EditsOf(job_.partition.classes[c].role, {}).empty()) {
        continue;
      }
      for (const std::vector<uint32_t>& ranks : job_.ranks_of[c]) {
        std::vector<uint32_t>* group = nullptr;
        for (uint32_t rank : ranks) {
          if (named.contains(rank)) {
            continue;
          }
          group = group == nullptr ? &groups_[KeyOf(rank, {})] : group;
          group->push_back(rank);
        }
      }
    }
  }

  // The edits that affect a rank: those that name it and those of its whole role.
  [[nodiscard]] std::vector<uint32_t> EditsOf(uint32_t role,
                                              const std::vector<uint32_t>& named) const {
    std::vector<uint32_t> edits = named;
    for (uint32_t e = 0; e < edit_.programs.size(); ++e) {
      if (edit_.programs[e].ranks.empty() && edit_.programs[e].role == role) {
        edits.push_back(e);
      }
    }
    std::sort(edits.begin(), edits.end());
    return edits;
  }

  [[nodiscard]] VariantKey KeyOf(uint32_t rank, const std::vector<uint32_t>& named) const {
    VariantKey key;
    key.class_index = job_.partition.class_of[rank];
    key.lane = job_.partition.lane_of[rank];
    key.edits = EditsOf(job_.partition.classes[key.class_index].role, named);
    key.delay_ns = job_.baseline.of_class(key.class_index).costs[key.lane].delay_ns;
    return key;
  }

  void GroupAllRanks() {
    const Placement placement(job_.graph, options_);
    const std::vector<RankEffect> effects =
        RankEffects(job_.graph.ranks.size(), options_.perturbations);
    const std::vector<RankEffect> before =
        RankEffects(job_.graph.ranks.size(), job_.options.perturbations);
    std::vector<CommTopology> topologies;
    for (uint32_t comm = 0; comm < job_.graph.communicators.size(); ++comm) {
      topologies.push_back(placement.Topology(comm));
    }
    const bool other_costs = edit_.cluster || options_.comm_scale != job_.options.comm_scale ||
                             options_.compute_scale != job_.options.compute_scale;
    const std::map<uint32_t, std::vector<uint32_t>> named = EditsOfRanks();
    for (uint32_t rank = 0; rank < job_.graph.ranks.size(); ++rank) {
      const auto edits = named.find(rank);
      VariantKey key = KeyOf(rank, edits == named.end() ? std::vector<uint32_t>() : edits->second);
      key.compute_factor = effects[rank].compute_factor;
      key.delay_ns = effects[rank].delay_ns;
      ClassWiring wiring = WiringOfRank(rank, placement, topologies);
      const bool rewired = wiring != WiringOf(job_.partition, key.class_index);
      if (rewired || other_costs) {
        key.wiring = std::move(wiring);
      }
      const graph::Role& role = job_.graph.role_of(Rank(rank));
      if (key.wiring || !key.edits.empty() || edit_.ReplacesProgram(role) ||
          !(effects[rank] == before[rank])) {
        replanned_ = true;
        groups_[std::move(key)].push_back(rank);
      }
    }
  }

  [[nodiscard]] ClassWiring WiringOfRank(uint32_t rank,
                                         const Placement& placement,
                                         const std::vector<CommTopology>& topologies) const {
    ClassWiring wiring;
    for (uint32_t comm : job_.graph.ranks.comms(Rank(rank))) {
      wiring.comms.push_back(topologies[comm]);
    }
    const auto peers = job_.graph.ranks.peers(Rank(rank));
    for (const Endpoint& endpoint : PlanOf(job_.partition.class_of[rank]).endpoints) {
      wiring.reach.push_back(placement.Reach(rank, peers[endpoint.peer_slot]));
      wiring.slow_factor.push_back(placement.LinkFactor(rank, peers[endpoint.peer_slot]));
    }
    return wiring;
  }

  [[nodiscard]] const RolePlan& PlanOf(uint32_t c) const {
    return job_.partition.plans[job_.partition.classes[c].groups.front().plan];
  }

  Variant Make(const VariantKey& key) {
    Variant variant;
    variant.class_index = key.class_index;
    variant.lane = key.lane;
    const ClassBaseline& before = job_.baseline.of_class(key.class_index);
    variant.costs = before.costs[key.lane];
    ChangeFinder finder(job_.schedule.classes[key.class_index], &variant.changed);
    if (replanned_) {
      Replan(key, &variant);
      finder.Steps(*before.costs[key.lane].plan, *variant.plan);
    } else {
      Patch(key, &variant, &finder);
    }
    if (key.wiring) {
      const CollectiveCost cost(cluster_);
      variant.transfers = std::make_unique<TransferCosts>(
          CostTransfers(*variant.costs.plan, *key.wiring, cost, options_.comm_scale));
      variant.costs.transfers = variant.transfers.get();
      variant.other_transfers =
          finder.Transfers(*variant.costs.plan, before.transfers, *variant.transfers);
    }
    const double slowdown = cluster_.parameters.Value("overlap.compute_slowdown");
    if (!variant.charges) {
      variant.charges = std::make_unique<std::vector<DurationNs>>(
          CostCharges(variant.costs.plan->charge_sources, variant.costs.plan->charge_count,
                      variant.costs.transfers->transfer_ns, slowdown));
    }
    finder.Charges(*variant.costs.plan, *variant.costs.charges, *variant.charges);
    variant.costs.charges = variant.charges.get();
    if (variant.costs.delay_ns != key.delay_ns) {
      variant.costs.delay_ns = key.delay_ns;
      variant.changed.push_back(0);
    }
    finder.Finish();
    return variant;
  }

  // Rebuilds the plan: needed for everything but single ops.
  void Replan(const VariantKey& key, Variant* variant) {
    const graph::Role& role = job_.graph.roles[job_.partition.classes[key.class_index].role];
    variant->program = std::make_unique<graph::Program>(
        edit_.ReplacesProgram(role) ? edit_.role_program->program : role.program);
    for (uint32_t e : key.edits) {
      for (const OpDuration& op : edit_.programs[e].durations) {
        variant->program->flags[op.op] |= graph::kDurationFixed;
        variant->program->value.Set(op.op, op.duration_ns);
      }
    }
    if (!costs_) {
      compute_.emplace(cluster_);
      costs_.emplace(OpCostsOf(job_.graph, cluster_, &*compute_));
    }
    variant->plan = std::make_unique<RolePlan>(
        MakeRolePlan(*variant->program, *costs_, key.compute_factor * options_.compute_scale));
    variant->costs.plan = variant->plan.get();
  }

  void Patch(const VariantKey& key, Variant* variant, ChangeFinder* finder) {
    const RolePlan& plan = *variant->costs.plan;
    const double factor = plan.compute_scale;
    std::map<uint32_t, DurationNs> durations;  // by op
    for (uint32_t e : key.edits) {
      for (const OpDuration& op : edit_.programs[e].durations) {
        durations[op.op] = op.duration_ns;
      }
    }
    std::vector<ChargeSource> sources = plan.charge_sources;
    for (const auto& [op, unscaled] : durations) {
      const uint16_t stream = plan.program->stream[op];
      const std::vector<Step>& steps = plan.streams[stream];
      const auto step = std::lower_bound(steps.begin(), steps.end(), op,
                                         [](const Step& s, uint32_t o) { return s.op < o; });
      const DurationNs duration = step->compute ? ScaledCompute(unscaled, factor) : unscaled;
      if (step->duration == duration) {
        continue;
      }
      const auto index = static_cast<uint32_t>(step - steps.begin());
      variant->costs.patches.push_back({stream, index, duration});
      finder->Step(stream, index, options_.iterations + (op < plan.ahead ? 1 : 0));
      for (ChargeSource& source : sources) {
        if (plan.program->kind[op] == graph::OpKind::kKernel && source.Counts(op, stream)) {
          source.compute_ns += duration - step->duration;
        }
      }
    }
    std::sort(variant->costs.patches.begin(), variant->costs.patches.end());
    variant->charges = std::make_unique<std::vector<DurationNs>>(CostCharges(
        sources, plan.charge_count, variant->costs.transfers->transfer_ns, job_.overlap_slowdown));
  }

  const RecordedJob& job_;
  const Edit& edit_;
  const ReplayOptions& options_;
  const graph::ClusterSpec& cluster_;
  bool replanned_ = false;  // more than the durations of single ops differ
  std::map<VariantKey, std::vector<uint32_t>> groups_;
  std::optional<ComputeCost> compute_;
  std::optional<OpCosts> costs_;
};

}  // namespace

std::vector<Variant> MakeVariants(const RecordedJob& job, const Edit& edit) {
  return VariantMaker(job, edit).Run();
}

}  // namespace prism::replayer
