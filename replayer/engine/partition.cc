#include "replayer/engine/partition.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "graph/rank_classes.h"
#include "graph/rank_slots.h"
#include "replayer/engine/network_model.h"
#include "replayer/engine/placement.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/speedup.h"
#include "replayer/perturb/rank_effects.h"

namespace prism::replayer {
namespace {

using Words = std::vector<uint64_t>;

// Dense ids for distinct values, in order of first use.
template <typename Key>
class Numbering {
 public:
  uint32_t Of(const Key& key) {
    return ids_.try_emplace(key, static_cast<uint32_t>(ids_.size())).first->second;
  }

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(ids_.size()); }

 private:
  std::map<Key, uint32_t> ids_;
};

uint64_t WordOf(double value) {
  return std::bit_cast<uint64_t>(value);
}

uint64_t Pair(uint32_t high, uint32_t low) {
  return (uint64_t{high} << 32U) | low;
}

class Partitioner {
 public:
  Partitioner(const graph::Graph& graph, const ReplayOptions& options)
      : graph_(graph), options_(options), placement_(graph, options) {}

  Partition Run(const std::vector<Rank>& gated, const OpCosts& costs) && {
    effects_ = RankEffects(graph_.ranks.size(), options_.perturbations);
    for (const Perturbation& perturbation : options_.perturbations) {
      result_.jitter.Add(perturbation);
    }
    IndexSlots();
    reverse_slot_ = graph::ReversePeerSlots(graph_.ranks);
    DescribeCommunicators();
    FindTimelines(gated);
    MakeClasses(costs);
    MakeCommClasses();
    MakeChannels();
    return std::move(result_);
  }

 private:
  // member_slot_: in which slot each member of a communicator holds it.
  void IndexSlots() {
    const graph::CommunicatorTable& comms = graph_.communicators;
    member_slot_.assign(comms.members.size(), kNone);
    for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      auto held = graph_.ranks.comms(Rank(rank));
      for (uint32_t slot = 0; slot < held.size(); ++slot) {
        auto members = comms.members_of(CommId(held[slot]));
        auto found = std::ranges::lower_bound(members, rank);
        PRISM_CHECK(found != members.end() && *found == rank);
        member_slot_[comms.begin[held[slot]] + static_cast<uint32_t>(found - members.begin())] =
            slot;
      }
    }
  }

  void DescribeCommunicators() {
    const graph::CommunicatorTable& comms = graph_.communicators;
    Numbering<std::pair<CommTopology, Words>> colours;
    for (uint32_t comm = 0; comm < comms.size(); ++comm) {
      auto members = comms.members_of(CommId(comm));
      const CommTopology topology = placement_.Topology(comm);
      topologies_.push_back(topology);
      // Which slot of which role holds it, so that classes cannot mix them.
      Words held;
      for (size_t i = 0; i < members.size(); ++i) {
        held.push_back(Pair(graph_.ranks.role[members[i]], member_slot_[comms.begin[comm] + i]));
      }
      std::ranges::sort(held);
      comm_colour_.push_back(colours.Of({topology, std::move(held)}));
    }
  }

  // The slot of the peer at `slot` in which it holds `rank`; kNoSlot where it does not.
  [[nodiscard]] uint32_t ReverseSlot(uint32_t rank, uint32_t slot) const {
    return reverse_slot_[graph_.ranks.peer_begin[rank] + slot];
  }

  // What distinguishes a rank before anything about its neighbours is known.
  [[nodiscard]] Words InitialColour(uint32_t rank, const std::vector<uint32_t>& own) const {
    // Lanes of a class share its host costs and the interruptions of its host and devices.
    const RankEffect& effect = effects_[rank];
    Words words = {own[rank], WordOf(effect.host_factor), effect.interference.size(),
                   effect.pauses.size()};
    for (const Interference& one : effect.interference) {
      words.push_back(static_cast<uint64_t>(one.period_ns));
      words.push_back(static_cast<uint64_t>(one.duration_ns));
    }
    for (const HostPause& pause : effect.pauses) {
      words.push_back(static_cast<uint64_t>(pause.iterations));
      words.push_back(static_cast<uint64_t>(pause.duration_ns));
    }
    if (by_time_) {
      words.push_back(WordOf(effect.compute_factor));
      words.push_back(static_cast<uint64_t>(effect.delay_ns));
    }
    const auto peers = graph_.ranks.peers(Rank(rank));
    for (uint32_t slot = 0; slot < peers.size(); ++slot) {
      words.push_back(ReverseSlot(rank, slot));
      words.push_back(static_cast<uint64_t>(placement_.Reach(rank, peers[slot])));
      words.push_back(WordOf(placement_.LinkFactor(rank, peers[slot])));
    }
    return words;
  }

  // Finds which ranks and communicators have equal times, then the classes regardless of times.
  void FindTimelines(const std::vector<Rank>& gated) {
    if (!options_.classes || result_.jitter.any()) {
      timeline_of_.resize(graph_.ranks.size());
      std::iota(timeline_of_.begin(), timeline_of_.end(), 0U);
      meeting_of_.resize(graph_.communicators.size());
      std::iota(meeting_of_.begin(), meeting_of_.end(), 0U);
      Refine(gated);
      return;
    }
    by_time_ = true;
    Refine(gated);
    timeline_of_ = classes_.class_of;
    meeting_of_ = result_.comm_class_of;
    by_time_ = false;
    const bool differ = std::ranges::any_of(effects_, [](const RankEffect& effect) {
      return effect.compute_factor != 1 || effect.delay_ns != 0;
    });
    if (differ) {
      Refine(gated);
    }
  }

  void Refine(const std::vector<Rank>& gated) {
    uint32_t world = graph_.ranks.size();
    std::vector<uint32_t> own(world, 0);  // non-zero: a separate class
    for (uint32_t rank = 0; rank < world; ++rank) {
      const bool alone = options_.network != NetworkModel::kAnalytic;
      own[rank] = alone || effects_[rank].kill_iteration >= 0 ? rank + 1 : 0;
    }
    for (Rank rank : gated) {
      own[rank.value()] = rank.value() + 1;
    }
    Numbering<Words> colours;
    std::vector<uint32_t> colour(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      colour[rank] = colours.Of(InitialColour(rank, own));
    }
    while (true) {
      classes_ = graph::RefineRanks(graph_, colour, comm_colour_);
      GroupCommunicators();
      Numbering<Words> wirings;
      for (uint32_t rank = 0; rank < world; ++rank) {
        colour[rank] = wirings.Of(Wiring(rank));
      }
      if (wirings.size() == classes_.representative.size()) {
        return;
      }
    }
  }

  // Communicator classes: same members' classes, slots and cost.
  void GroupCommunicators() {
    const graph::CommunicatorTable& comms = graph_.communicators;
    Numbering<std::pair<CommTopology, Words>> numbering;
    result_.comm_class_of.clear();
    entries_.clear();
    for (uint32_t comm = 0; comm < comms.size(); ++comm) {
      Words entries = EntriesOf(comm);
      uint32_t id = numbering.Of({topologies_[comm], entries});
      result_.comm_class_of.push_back(id);
      if (id == entries_.size()) {
        entries_.push_back(std::move(entries));
      }
    }
  }

  // Distinct (class, slot) of the members, ordered.
  [[nodiscard]] Words EntriesOf(uint32_t comm) const {
    const graph::CommunicatorTable& comms = graph_.communicators;
    auto members = comms.members_of(CommId(comm));
    Words entries;
    for (size_t i = 0; i < members.size(); ++i) {
      entries.push_back(Pair(classes_.class_of[members[i]], member_slot_[comms.begin[comm] + i]));
    }
    std::ranges::sort(entries);
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
    return entries;
  }

  // How a rank is connected, in terms of classes: equal for all ranks of a class, else the class
  // must be split.
  [[nodiscard]] Words Wiring(uint32_t rank) const {
    Words words = {classes_.class_of[rank]};
    for (uint32_t comm : graph_.ranks.comms(Rank(rank))) {
      words.push_back(result_.comm_class_of[comm]);
    }
    const auto peers = graph_.ranks.peers(Rank(rank));
    for (uint32_t slot = 0; slot < peers.size(); ++slot) {
      words.push_back(Pair(classes_.class_of[peers[slot]], ReverseSlot(rank, slot)));
    }
    return words;
  }

  void MakeClasses(const OpCosts& costs) {
    result_.class_of = classes_.class_of;
    std::vector<std::vector<Rank>> lanes = Lanes();
    // By role, compute factor and host factor.
    std::map<std::tuple<uint32_t, double, double>, uint32_t> plans;
    for (uint32_t c = 0; c < classes_.representative.size(); ++c) {
      RankClass rank_class;
      rank_class.representative = Rank(classes_.representative[c]);
      rank_class.size = classes_.size[c];
      rank_class.role = graph_.ranks.role[rank_class.representative.value()];
      const RankEffect& effect = effects_[rank_class.representative.value()];
      rank_class.kill_iteration = effect.kill_iteration;
      rank_class.interference = effect.interference;
      rank_class.pauses = effect.pauses;
      rank_class.lanes = std::move(lanes[c]);
      for (uint32_t lane = 0; lane < rank_class.lanes.size(); ++lane) {
        const RankEffect& own = effects_[rank_class.lanes[lane].value()];
        rank_class.delay_ns.push_back(own.delay_ns);
        double factor = own.compute_factor * options_.compute_scale;
        auto [plan, is_new] = plans.try_emplace({rank_class.role, factor, effect.host_factor},
                                                static_cast<uint32_t>(result_.plans.size()));
        if (is_new) {
          const graph::Program& program = graph_.roles[rank_class.role].program;
          result_.plans.push_back(
              MakeRolePlan(program, CostsOf(rank_class.role, effect.host_factor, costs), factor));
        }
        if (lane == 0 || rank_class.groups.back().plan != plan->second) {
          rank_class.groups.push_back({lane, lane, plan->second});
        }
        ++rank_class.groups.back().end;
      }
      AddCommEntries(rank_class, c);
      result_.classes.push_back(std::move(rank_class));
    }
  }

  // What ops cost ranks of the role whose host is slowed by that factor.
  [[nodiscard]] OpCosts CostsOf(uint32_t role, double host_factor, OpCosts costs) const {
    const Speedup* speedup = options_.speedup.get();
    if (speedup != nullptr) {
      costs.sped_up = role < speedup->ops.size() ? &speedup->ops[role] : nullptr;
      costs.factor = speedup->factor;
      host_factor *= Speedup::Has(speedup->hosts, role) ? speedup->factor : 1;
    }
    for (DurationNs& cost : costs.host) {
      cost = SlowedHostCost(cost, host_factor);
    }
    return costs;
  }

  // By class: the ranks to evaluate, those with the same compute factor next to each other. Fills
  // lane_of.
  std::vector<std::vector<Rank>> Lanes() {
    std::vector<std::vector<Rank>> lanes(classes_.representative.size());
    std::vector<uint32_t> lane_of(graph_.ranks.size(), kNone);  // by timeline
    for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      if (std::exchange(lane_of[timeline_of_[rank]], 0) == kNone) {
        lanes[classes_.class_of[rank]].emplace_back(rank);
      }
    }
    for (std::vector<Rank>& of_class : lanes) {
      std::ranges::stable_sort(of_class, [this](Rank a, Rank b) {
        return effects_[a.value()].compute_factor < effects_[b.value()].compute_factor;
      });
      for (uint32_t lane = 0; lane < of_class.size(); ++lane) {
        lane_of[timeline_of_[of_class[lane].value()]] = lane;
      }
    }
    for (uint32_t timeline : timeline_of_) {
      result_.lane_of.push_back(lane_of[timeline]);
    }
    return lanes;
  }

  void AddCommEntries(RankClass& rank_class, uint32_t class_index) {
    auto held = graph_.ranks.comms(rank_class.representative);
    for (uint32_t slot = 0; slot < held.size(); ++slot) {
      uint32_t id = result_.comm_class_of[held[slot]];
      const Words& entries = entries_[id];
      auto found = std::ranges::lower_bound(entries, Pair(class_index, slot));
      rank_class.comms.push_back({id, static_cast<uint32_t>(found - entries.begin()), {}});
    }
  }

  void MakeCommClasses() {
    result_.comm_classes.resize(entries_.size());
    std::vector<uint32_t> instance_of(graph_.communicators.size(), kNone);  // by meeting
    for (uint32_t comm = 0; comm < graph_.communicators.size(); ++comm) {
      CommClass& comm_class = result_.comm_classes[result_.comm_class_of[comm]];
      if (comm_class.instances == 0) {
        comm_class.representative = CommId(comm);
        comm_class.topology = topologies_[comm];
        comm_class.entry_count =
            static_cast<uint32_t>(entries_[result_.comm_class_of[comm]].size());
      }
      if (instance_of[meeting_of_[comm]] == kNone) {
        instance_of[meeting_of_[comm]] = comm_class.instances++;
      }
    }
    for (CommClass& comm_class : result_.comm_classes) {
      auto members = graph_.communicators.members_of(comm_class.representative);
      for (uint32_t member : members) {
        comm_class.spans_stages =
            comm_class.spans_stages ||
            graph_.role_of(Rank(member)).stage != graph_.role_of(Rank(members.front())).stage;
      }
    }
    for (RankClass& rank_class : result_.classes) {
      for (Rank rank : rank_class.lanes) {
        auto held = graph_.ranks.comms(rank);
        for (uint32_t slot = 0; slot < held.size(); ++slot) {
          rank_class.comms[slot].instance_of.push_back(instance_of[meeting_of_[held[slot]]]);
        }
      }
    }
  }

  // Pairs each endpoint (class, communicator slot, peer slot, direction) with its opposite.
  void MakeChannels() {
    using Key = std::pair<Words, bool>;
    std::map<Key, std::pair<uint32_t, uint32_t>> endpoints;  // → class, endpoint
    for (uint32_t c = 0; c < result_.classes.size(); ++c) {
      RankClass& rank_class = result_.classes[c];
      const RolePlan& plan = result_.plans[rank_class.groups.front().plan];
      rank_class.channels.resize(plan.endpoints.size());
      for (uint32_t e = 0; e < plan.endpoints.size(); ++e) {
        const Endpoint& endpoint = plan.endpoints[e];
        endpoints[{{c, endpoint.comm_slot, endpoint.peer_slot}, endpoint.is_send}] = {c, e};
      }
    }
    for (auto& rank_class : result_.classes) {
      const RolePlan& plan = result_.plans[rank_class.groups.front().plan];
      for (uint32_t e = 0; e < plan.endpoints.size(); ++e) {
        ChannelEnd& end = rank_class.channels[e];
        const Endpoint& endpoint = plan.endpoints[e];
        uint32_t rank = rank_class.representative.value();
        uint32_t peer = graph_.ranks.peers(Rank(rank))[endpoint.peer_slot];
        end.peer = peer;
        end.other_stage = graph_.role_of(Rank(peer)).stage != graph_.role_of(Rank(rank)).stage;
        end.reach = placement_.Reach(rank, peer);
        for (Rank lane : rank_class.lanes) {
          end.peer_lane.push_back(result_.lane_of[graph_.ranks.peers(lane)[endpoint.peer_slot]]);
        }
        const CommId comm(graph_.ranks.comms(Rank(rank))[endpoint.comm_slot]);
        end.slow_factor =
            placement_.LinkFactor(rank, peer) * placement_.CommunicatorFactor(comm.value());
        auto other = endpoints.find(
            {{classes_.class_of[peer], graph::CommSlotOf(graph_.ranks, Rank(peer), comm),
              ReverseSlot(rank, endpoint.peer_slot)},
             !endpoint.is_send});
        if (endpoint.is_send && other != endpoints.end()) {
          end.channel = result_.channel_count++;
          auto [other_class, other_endpoint] = other->second;
          result_.classes[other_class].channels[other_endpoint].channel = end.channel;
        }
      }
    }
  }

  const graph::Graph& graph_;
  const ReplayOptions& options_;
  Placement placement_;
  Partition result_;
  bool by_time_ = false;                  // refine also by what makes only times differ
  std::vector<uint32_t> timeline_of_;     // by rank: equal for ranks with equal times
  std::vector<uint32_t> meeting_of_;      // by communicator: equal for equal times
  std::vector<RankEffect> effects_;       // by rank
  std::vector<uint32_t> member_slot_;     // parallel to CommunicatorTable::members
  std::vector<uint16_t> reverse_slot_;    // parallel to RankTable::peer_ids
  std::vector<CommTopology> topologies_;  // by communicator
  std::vector<uint32_t> comm_colour_;     // by communicator
  graph::RankClasses classes_;
  std::vector<Words> entries_;  // by communicator class: (class, slot)
};

}  // namespace

ClassWiring WiringOf(const Partition& partition, uint32_t class_index) {
  ClassWiring wiring;
  for (const CommEntry& entry : partition.classes[class_index].comms) {
    wiring.comms.push_back(partition.comm_classes[entry.comm_class].topology);
  }
  for (const ChannelEnd& channel : partition.classes[class_index].channels) {
    wiring.reach.push_back(channel.reach);
    wiring.slow_factor.push_back(channel.slow_factor);
  }
  return wiring;
}

bool WaitsForStage(const Partition& partition,
                   const RankClass& rank_class,
                   const RolePlan& plan,
                   const Step& step) {
  if (step.kind == StepKind::kPeerGroup) {
    const PeerPosts& group = plan.groups[step.aux];
    return std::any_of(
        plan.posts.begin() + group.begin, plan.posts.begin() + group.end,
        [&](const PeerPost& post) { return rank_class.channels[post.endpoint].other_stage; });
  }
  for (uint32_t c = step.aux; c != kNone; c = plan.calls[c].next_in_group) {
    if (partition.comm_classes[rank_class.comms[plan.calls[c].comm_slot].comm_class].spans_stages) {
      return true;
    }
  }
  return false;
}

Result<Partition> MakePartition(const graph::Graph& graph,
                                const ReplayOptions& options,
                                const std::vector<Rank>& gated,
                                const OpCosts& costs) {
  PRISM_RETURN_IF_ERROR(CheckOptions(graph, options));
  return Partitioner(graph, options).Run(gated, costs);
}

}  // namespace prism::replayer
