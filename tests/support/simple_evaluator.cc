#include "tests/support/simple_evaluator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "replayer/cost/collective_cost.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/parameters.h"
#include "replayer/engine/replay_options.h"
#include "replayer/perturb/jitter.h"
#include "replayer/perturb/rank_effects.h"
#include "tests/support/simple_effects.h"
#include "tests/support/simple_links.h"

namespace prism::testing {
namespace {

using graph::OpKind;
using graph::Program;
using replayer::Timeline;

bool RunsOnStream(OpKind kind) {
  return kind == OpKind::kKernel || kind == OpKind::kMemcpy || kind == OpKind::kMemset ||
         kind == OpKind::kEventRecord || kind == OpKind::kEventWait ||
         kind == OpKind::kCollective || kind == OpKind::kPeerGroup;
}

bool IsGrouped(const Program& program, uint32_t op) {
  return program.kind[op] == OpKind::kCollective &&
         (program.flags[op] & graph::kGroupedWithNext) != 0;
}

// (communicator, sequence) → arrival of each member that has arrived.
using Meetings = std::map<std::pair<uint32_t, int64_t>, std::map<uint32_t, TimeNs>>;

struct Message {
  TimeNs arrival;
  DurationNs transfer;
  bool eager;
  bool fixed;
};

// The longer end counts, or the sender's fixed duration.
DurationNs TransferOf(const Message& send, const Message& receive) {
  return send.fixed ? send.transfer : std::max(send.transfer, receive.transfer);
}

// (communicator, source, target, number) → side.
using MessageKey = std::tuple<uint32_t, uint32_t, uint32_t, int64_t>;

struct World {
  const graph::Graph& graph;
  const replayer::ReplayOptions& options;
  replayer::CollectiveCost collective_cost;
  replayer::ComputeCost compute_cost;
  std::vector<DurationNs> host_costs;
  Meetings meetings;
  std::map<MessageKey, Message> sends;
  std::map<MessageKey, Message> receives;
};

class SimpleRank {
 public:
  SimpleRank(World* world, uint32_t rank)
      : world_(*world),
        rank_(rank),
        program_(world->graph.role_of(Rank(rank)).program),
        effects_(world->options, Rank(rank)) {
    auto ops =
        static_cast<size_t>(program_.size()) * static_cast<size_t>(world_.options.iterations);
    timeline_.rank = Rank(rank);
    timeline_.issue.assign(ops, -1);
    timeline_.start.assign(ops, -1);
    timeline_.transfer_start.assign(ops, -1);
    timeline_.end.assign(ops, -1);
    queue_.resize(program_.stream_count);
    tail_.assign(program_.stream_count, 0);
    host_ = effects_.delay_ns;
    last_ = int64_t{effects_.last_iteration} * program_.size();
  }

  // True when anything happened.
  bool Step() {
    bool moved = StepHost();
    for (uint16_t stream = 0; stream < program_.stream_count; ++stream) {
      while (!queue_[stream].empty() && StepStream(stream)) {
        moved = true;
      }
    }
    return moved;
  }

  [[nodiscard]] bool Finished() const {
    return next_ == int64_t{program_.size()} * world_.options.iterations &&
           std::all_of(queue_.begin(), queue_.end(), [](const auto& q) { return q.empty(); });
  }

  [[nodiscard]] const Timeline& timeline() const { return timeline_; }

 private:
  [[nodiscard]] uint32_t OpAt(int64_t position) const {
    return static_cast<uint32_t>(position % program_.size());
  }

  [[nodiscard]] DurationNs HostCost(uint32_t op) const {
    if (program_.kind[op] == OpKind::kHostGap) {
      return program_.value[op];
    }
    if ((program_.flags[op] & graph::kLaunchedWithPrevious) != 0) {
      return 0;
    }
    return replayer::SlowedHostCost(world_.host_costs[static_cast<size_t>(program_.kind[op])],
                                    effects_.host_factor);
  }

  bool StepHost() {
    bool moved = false;
    while (next_ < last_) {
      uint32_t op = OpAt(next_);
      std::optional<TimeNs> ready = HostReady(op);
      if (!ready) {
        break;
      }
      moved = true;
      host_ += op == 0 ? effects_.PauseBefore(next_ / program_.size()) : 0;
      host_ += HostCost(op);
      auto index = static_cast<size_t>(next_);
      timeline_.issue[index] = host_;
      if (RunsOnStream(program_.kind[op])) {
        queue_[program_.stream[op]].push_back(next_);
      } else {
        timeline_.start[index] =
            program_.kind[op] == OpKind::kHostGap ? host_ - HostCost(op) : host_;
        host_ = std::max(host_, *ready) + ChargeOf(op);
        timeline_.end[index] = host_;
      }
      ++next_;
    }
    return moved;
  }

  // When a host op may proceed; null while that is not known.
  [[nodiscard]] std::optional<TimeNs> HostReady(uint32_t op) const {
    OpKind kind = program_.kind[op];
    if (kind == OpKind::kEventSync && program_.dep[op] != graph::kNoDep) {
      TimeNs end = timeline_.end[static_cast<size_t>(next_ - op + program_.dep[op])];
      return end < 0 ? std::nullopt : std::optional(end);
    }
    TimeNs latest = 0;
    for (uint16_t stream = 0; stream < program_.stream_count; ++stream) {
      if (kind == OpKind::kDeviceSync ||
          (kind == OpKind::kStreamSync && program_.stream[op] == stream)) {
        if (!queue_[stream].empty()) {
          return std::nullopt;
        }
        latest = std::max(latest, tail_[stream]);
      }
    }
    return latest;
  }

  bool StepStream(uint16_t stream) {
    int64_t position = queue_[stream].front();
    uint32_t op = OpAt(position);
    auto index = static_cast<size_t>(position);
    OpKind kind = program_.kind[op];
    TimeNs start = std::max(timeline_.issue[index], tail_[stream]);
    TimeNs end = start;
    if (kind == OpKind::kCollective || kind == OpKind::kPeerGroup) {
      return StepTransfer(stream);
    }
    if (kind == OpKind::kEventWait && program_.dep[op] != graph::kNoDep) {
      TimeNs recorded = timeline_.end[static_cast<size_t>(position - op + program_.dep[op])];
      if (recorded < 0) {
        return false;
      }
      end = std::max(start, recorded) + ChargeOf(op);
    } else if (kind != OpKind::kEventWait && kind != OpKind::kEventRecord) {
      end = effects_.WorkedUntil(start, Noisy(op, static_cast<int32_t>(index / program_.size())));
    }
    timeline_.start[index] = start;
    timeline_.end[index] = end;
    tail_[stream] = end;
    queue_[stream].erase(queue_[stream].begin());
    return true;
  }

  [[nodiscard]] bool IsHostCopy(uint32_t op) const {
    return program_.kind[op] == OpKind::kMemcpy &&
           (program_.flags[op] & (graph::kHostToDevice | graph::kDeviceToHost)) != 0;
  }

  // All but copies from and to the host have noise.
  [[nodiscard]] DurationNs Noisy(uint32_t op, int32_t iteration) const {
    const DurationNs duration = Duration(op);
    return !effects_.jitter.any() || IsHostCopy(op)
               ? duration
               : replayer::Jittered(duration, effects_.jitter,
                                    {world_.options.seed, Rank(rank_), iteration, op});
  }

  [[nodiscard]] DurationNs Duration(uint32_t op) const {
    DurationNs duration = program_.value[op];
    if ((program_.flags[op] & graph::kDurationFixed) == 0) {
      switch (program_.kind[op]) {
        case OpKind::kKernel:
          duration = world_.compute_cost
                         .Kernel(world_.graph, world_.graph.signatures[program_.signature[op]])
                         .duration_ns;
          break;
        case OpKind::kMemcpy:
          duration = world_.compute_cost.Copy(program_.value[op], program_.flags[op]);
          break;
        default:
          duration = world_.compute_cost.Memset(program_.value[op]);
          break;
      }
    }
    return IsHostCopy(op) ? duration
                          : std::llround(static_cast<double>(duration) * effects_.factor);
  }

  [[nodiscard]] uint32_t CommOf(uint16_t slot) const {
    return world_.graph.ranks.comms(Rank(rank_))[slot];
  }

  [[nodiscard]] DurationNs TransferTime(uint32_t op) const {
    auto members = world_.graph.communicators.members_of(CommId(CommOf(program_.comm_slot[op])));
    replayer::CommTopology topology =
        replayer::TopologyOf(members, world_.graph.cluster.gpus_per_node);
    topology.slow_factor = SlowestOfRing(world_.graph, world_.options, members);
    topology.pair_factor = SlowestOfPairs(world_.graph, world_.options, members);
    const graph::CollectiveShape& shape = program_.collectives[program_.signature[op]];
    return (program_.flags[op] & graph::kDurationFixed) != 0
               ? Slowed(program_.value[op], shape.kind == graph::CollectiveKind::kAllToAll
                                                ? topology.pair_factor
                                                : topology.slow_factor)
               : world_.collective_cost.Collective(shape, topology);
  }

  // The ops of one NCCL group at the head of the stream; empty while not all are issued.
  [[nodiscard]] std::vector<int64_t> GroupAt(uint16_t stream) const {
    std::vector<int64_t> group = {queue_[stream][0]};
    while (IsGrouped(program_, OpAt(group.back()))) {
      // The next op of the program on this stream belongs to the group if it is a collective.
      uint32_t op = OpAt(group.back()) + 1;
      while (op < program_.size() &&
             (!RunsOnStream(program_.kind[op]) || program_.stream[op] != stream)) {
        ++op;
      }
      if (op == program_.size() || program_.kind[op] != OpKind::kCollective) {
        break;
      }
      if (queue_[stream].size() <= group.size()) {
        return {};
      }
      group.push_back(queue_[stream][group.size()]);
    }
    return group;
  }

  bool StepTransfer(uint16_t stream) {
    std::vector<int64_t> group = GroupAt(stream);
    if (group.empty()) {
      return false;
    }
    TimeNs arrival = std::max(timeline_.issue[static_cast<size_t>(group.back())], tail_[stream]);
    TimeNs start = arrival;
    TimeNs end = arrival;
    bool complete = true;
    std::map<uint16_t, DurationNs> on_slot;
    for (int64_t position : group) {
      auto index = static_cast<size_t>(position);
      timeline_.issue[index] = timeline_.issue[static_cast<size_t>(group.back())];
      timeline_.start[index] = arrival;
      uint32_t op = OpAt(position);
      if (program_.kind[op] == OpKind::kPeerGroup) {
        complete = MeetPeers(position, arrival, &start, &end);
        continue;
      }
      DurationNs& length = on_slot[program_.comm_slot[op]];
      length += TransferTime(op);
      complete = MeetMembers(position, arrival, length, &start, &end) && complete;
    }
    if (!complete) {
      return false;
    }
    for (int64_t position : group) {
      timeline_.transfer_start[static_cast<size_t>(position)] = start;
      timeline_.end[static_cast<size_t>(position)] = end;
      queue_[stream].erase(queue_[stream].begin());
    }
    tail_[stream] = end;
    return true;
  }

  // How many earlier calls there were on the communicator of the op.
  [[nodiscard]] int64_t Sequence(int64_t position) const {
    int64_t count = 0;
    for (int64_t p = 0; p < position; ++p) {
      count += program_.kind[OpAt(p)] == OpKind::kCollective &&
                       program_.comm_slot[OpAt(p)] == program_.comm_slot[OpAt(position)]
                   ? 1
                   : 0;
    }
    return count;
  }

  bool MeetMembers(
      int64_t position, TimeNs arrival, DurationNs length, TimeNs* start, TimeNs* end) {
    uint32_t comm = CommOf(program_.comm_slot[OpAt(position)]);
    std::map<uint32_t, TimeNs>& arrivals = world_.meetings[{comm, Sequence(position)}];
    arrivals[rank_] = arrival;
    TimeNs latest = arrival;
    for (const auto& [member, time] : arrivals) {
      latest = std::max(latest, time);
    }
    *start = std::max(*start, latest);
    *end = std::max(*end, latest + length);
    return arrivals.size() == world_.graph.communicators.members_of(CommId(comm)).size();
  }

  bool MeetPeers(int64_t position, TimeNs arrival, TimeNs* start, TimeNs* end) {
    uint32_t op = OpAt(position);
    bool fixed = (program_.flags[op] & graph::kDurationFixed) != 0;
    bool complete = true;
    std::map<MessageKey, int64_t> earlier = MessagesBefore(position);
    const graph::PeerGroup& group = program_.peer_groups[program_.signature[op]];
    for (const graph::PeerTransfer& t : group.transfers) {
      uint32_t peer = world_.graph.ranks.peers(Rank(rank_))[t.peer_slot];
      MessageKey key = t.is_send ? MessageKey{CommOf(t.comm_slot), rank_, peer, 0}
                                 : MessageKey{CommOf(t.comm_slot), peer, rank_, 0};
      // A rank that sends to itself posts both sides; they are numbered separately.
      MessageKey counter = key;
      std::get<3>(counter) = t.is_send ? 1 : 0;
      std::get<3>(key) = earlier[counter]++;
      Message mine = {
          arrival,
          Slowed(fixed ? program_.value[op]
                       : ShareOfLink({world_.graph, world_.collective_cost, Rank(rank_)}, op, t),
                 SlowestOfRing(world_.graph, world_.options, {{rank_, peer}})),
          world_.collective_cost.IsEager(t.bytes), fixed};
      (t.is_send ? world_.sends : world_.receives)[key] = mine;
      auto send = world_.sends.find(key);
      auto receive = world_.receives.find(key);
      if (t.is_send && mine.eager) {
        *end = std::max(*end, arrival + mine.transfer);
      } else if (send == world_.sends.end() || receive == world_.receives.end()) {
        complete = false;
      } else {
        TimeNs both = std::max(send->second.arrival, receive->second.arrival);
        DurationNs transfer = TransferOf(send->second, receive->second);
        TimeNs over = both + transfer;
        if (send->second.eager) {
          over = std::max(receive->second.arrival, send->second.arrival + transfer);
        }
        *start = std::max(*start, both);
        *end = std::max(*end, over);
      }
    }
    return complete;
  }

  // By (communicator, source, target, is send): messages of this rank in earlier groups.
  [[nodiscard]] std::map<MessageKey, int64_t> MessagesBefore(int64_t position) const {
    std::map<MessageKey, int64_t> count;
    for (int64_t p = 0; p < position; ++p) {
      uint32_t op = OpAt(p);
      if (program_.kind[op] != OpKind::kPeerGroup) {
        continue;
      }
      for (const graph::PeerTransfer& t : program_.peer_groups[program_.signature[op]].transfers) {
        uint32_t peer = world_.graph.ranks.peers(Rank(rank_))[t.peer_slot];
        ++count[t.is_send ? MessageKey{CommOf(t.comm_slot), rank_, peer, 1}
                          : MessageKey{CommOf(t.comm_slot), peer, rank_, 0}];
      }
    }
    return count;
  }

  // The first op that waits for the collective `c`: an event wait of a stream that has computed
  // before, or a host wait; kNoDep if none does.
  [[nodiscard]] uint32_t WaitFor(uint32_t c) const {
    uint16_t stream = program_.stream[c];
    for (uint32_t w = c + 1; w < program_.size(); ++w) {
      OpKind kind = program_.kind[w];
      uint32_t dep = program_.dep[w];
      bool by_event = (kind == OpKind::kEventWait || kind == OpKind::kEventSync) &&
                      dep != graph::kNoDep && program_.stream[dep] == stream && dep > c;
      if (kind == OpKind::kDeviceSync ||
          (kind == OpKind::kStreamSync && program_.stream[w] == stream) ||
          (by_event && kind == OpKind::kEventSync) ||
          (by_event && program_.stream[w] != stream && HasKernel(w, program_.stream[w]))) {
        return w;
      }
    }
    return graph::kNoDep;
  }

  // Whether the stream has a kernel before op `end`.
  [[nodiscard]] bool HasKernel(uint32_t end, uint16_t stream) const {
    for (uint32_t op = 0; op < end; ++op) {
      if (program_.kind[op] == OpKind::kKernel && program_.stream[op] == stream) {
        return true;
      }
    }
    return false;
  }

  // Kernel time on a stream among the ops [begin, end).
  [[nodiscard]] DurationNs Compute(uint32_t begin, uint32_t end, uint16_t stream) const {
    DurationNs sum = 0;
    for (uint32_t op = begin; op < end; ++op) {
      if (program_.kind[op] == OpKind::kKernel && program_.stream[op] == stream) {
        sum += Duration(op);
      }
    }
    return sum;
  }

  DurationNs ChargeOf(uint32_t wait) {
    auto [known, is_new] = charges_.try_emplace(wait, 0);
    if (!is_new) {
      return known->second;
    }
    double f = world_.graph.cluster.parameters.Value("overlap.compute_slowdown");
    for (uint32_t c = 0; c < wait; ++c) {
      if (program_.kind[c] != OpKind::kCollective || WaitFor(c) != wait) {
        continue;
      }
      DurationNs beside = 0;
      for (uint16_t stream = 0; stream < program_.stream_count; ++stream) {
        bool counts = program_.kind[wait] != OpKind::kEventWait || program_.stream[wait] == stream;
        if (stream != program_.stream[c] && counts) {
          beside += Compute(c, wait, stream);
        }
      }
      known->second +=
          std::llround((f - 1) * static_cast<double>(std::min(beside, TransferTime(c))));
    }
    return known->second;
  }

  World& world_;
  uint32_t rank_;
  const Program& program_;
  SimpleEffects effects_;
  Timeline timeline_;
  TimeNs host_ = 0;
  int64_t next_ = 0;
  int64_t last_ = 0;
  std::vector<std::vector<int64_t>> queue_;  // by stream: issued, not complete
  std::vector<TimeNs> tail_;
  std::map<uint32_t, DurationNs> charges_;  // by waiting op
};

}  // namespace

SimpleResult EvaluateSimply(const graph::Graph& graph, const replayer::ReplayOptions& options) {
  World world = {graph,
                 options,
                 replayer::CollectiveCost(graph.cluster),
                 replayer::ComputeCost(graph.cluster),
                 replayer::HostCosts(graph.cluster.parameters),
                 {},
                 {},
                 {}};
  std::vector<SimpleRank> ranks;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    ranks.emplace_back(&world, rank);
  }
  bool moved = true;
  while (moved) {
    moved = false;
    for (SimpleRank& rank : ranks) {
      moved = rank.Step() || moved;
    }
  }
  SimpleResult result;
  result.finished = true;
  for (const SimpleRank& rank : ranks) {
    result.finished = result.finished && rank.Finished();
    result.timelines.push_back(rank.timeline());
  }
  return result;
}

}  // namespace prism::testing
