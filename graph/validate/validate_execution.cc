// Nothing waits in a circle: an untimed execution of one iteration by all classes of ranks.
//
// Ranks of one class (rank_classes.h) do the same, so one member represents all: a collective
// completes when every (class, slot) among its members has arrived equally often. Sends and
// receives meet in rendezvous, unless a send is said to be buffered. Classes advance in a
// work-list; since nothing is ever undone, the order does not change the outcome.

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/describe.h"
#include "graph/rank_classes.h"
#include "graph/rank_slots.h"
#include "graph/validate/validate_internal.h"

namespace prism::graph::internal {
namespace {

constexpr uint32_t kAbsent = 0xFFFFFFFFU;

// What the execution needs to know of a role's program, computed once.
struct Prepared {
  std::vector<std::vector<uint32_t>> stream_ops;  // [stream] → ops, in issue order
  std::vector<uint32_t> place;                    // by op: index in its stream's list
  // Transfers, numbered over all peer groups in issue order: transfers of op i begin at
  // first_transfer[i] (only for kPeerGroup).
  std::vector<uint32_t> first_transfer;
  std::vector<uint32_t> channel;   // by transfer: index into channels
  std::vector<uint32_t> ordinal;   // by transfer: how many came before it on its channel
  std::vector<uint32_t> sequence;  // by op: for a collective, how many came before on its slot
  // Channel: one direction with one peer on one communicator.
  std::map<std::tuple<uint16_t, uint16_t, bool>, uint32_t> channels;
};

bool IsStreamOp(OpKind kind) {
  return HasStream(kind) && kind != OpKind::kStreamSync;
}

void PrepareTransfers(const Program& program,
                      uint32_t op,
                      std::vector<uint32_t>& counts,
                      Prepared& prepared) {
  prepared.first_transfer[op] = static_cast<uint32_t>(prepared.channel.size());
  for (const PeerTransfer& transfer : program.peer_groups[program.signature[op]].transfers) {
    const auto fresh = static_cast<uint32_t>(prepared.channels.size());
    const auto [found, inserted] = prepared.channels.try_emplace(
        {transfer.comm_slot, transfer.peer_slot, transfer.is_send}, fresh);
    if (inserted) {
      counts.push_back(0);
    }
    prepared.channel.push_back(found->second);
    prepared.ordinal.push_back(counts[found->second]++);
  }
}

Prepared Prepare(const Program& program) {
  Prepared prepared;
  prepared.stream_ops.resize(program.stream_count);
  prepared.place.assign(program.size(), 0);
  prepared.first_transfer.assign(program.size(), 0);
  prepared.sequence.assign(program.size(), 0);
  std::vector<uint32_t> collectives(program.comm_slot_count, 0);
  std::vector<uint32_t> channel_counts;
  for (uint32_t op = 0; op < program.size(); ++op) {
    const OpKind kind = program.kind[op];
    if (!IsStreamOp(kind)) {
      continue;
    }
    std::vector<uint32_t>& ops = prepared.stream_ops[program.stream[op]];
    prepared.place[op] = static_cast<uint32_t>(ops.size());
    ops.push_back(op);
    if (kind == OpKind::kCollective) {
      prepared.sequence[op] = collectives[program.comm_slot[op]]++;
    } else if (kind == OpKind::kPeerGroup) {
      PrepareTransfers(program, op, channel_counts, prepared);
    }
  }
  return prepared;
}

// Where the other end of a channel is counted.
struct OtherEnd {
  uint32_t rank_class = kAbsent;
  uint32_t channel = kAbsent;
};

// A class in execution.
struct ClassState {
  Rank rank;  // representative
  const Program* program = nullptr;
  const Prepared* prepared = nullptr;
  uint32_t host = 0;                // next op of the host thread
  std::vector<uint32_t> cursor;     // by stream: next place
  std::vector<uint32_t> announced;  // by stream: places below this have arrived at their rendezvous
  std::vector<uint32_t> arrivals;   // by communicator slot: collectives arrived at
  std::vector<uint32_t> channel_arrivals;  // by channel
  std::vector<OtherEnd> other_end;         // by channel
  bool queued = false;
};

// One side of a communicator class: members of that class see it in that slot.
struct CommSide {
  uint32_t rank_class = 0;
  uint16_t slot = 0;

  auto operator<=>(const CommSide&) const = default;
};

class Execution {
 public:
  Execution(const Graph& graph, int64_t buffered_bytes)
      : graph_(graph),
        buffered_bytes_(buffered_bytes),
        classes_(RefineRanks(graph,
                             std::vector<uint32_t>(graph.ranks.size(), 0),
                             std::vector<uint32_t>(graph.communicators.size(), 0))) {
    for (const Role& role : graph.roles) {
      prepared_.push_back(Prepare(role.program));
    }
    for (const uint32_t rank : classes_.representative) {
      AddClass(Rank(rank));
    }
    for (const uint32_t comm : classes_.comm_representative) {
      AddCommunicator(CommId(comm));
    }
    const std::vector<uint16_t> reverse_slot = ReversePeerSlots(graph.ranks);
    for (ClassState& state : states_) {
      FindOtherEnds(reverse_slot, state);
    }
  }

  void Run() {
    for (uint32_t i = 0; i < states_.size(); ++i) {
      Enqueue(i);
    }
    while (!queue_.empty()) {
      const uint32_t next = queue_.front();
      queue_.pop_front();
      states_[next].queued = false;
      Advance(states_[next]);
    }
  }

  void Report(FaultList& faults) const {
    std::vector<char> told(states_.size(), 0);
    for (uint32_t first = 0; first < states_.size(); ++first) {
      // Follow who waits for whom, so that a circle is listed as one.
      uint32_t next = first;
      while (next != kAbsent && told[next] == 0 && !Finished(states_[next])) {
        told[next] = 1;
        next = ReportStall(states_[next], faults);
      }
    }
  }

 private:
  void AddClass(Rank rank) {
    const uint32_t role = graph_.ranks.role[rank.value()];
    ClassState state;
    state.rank = rank;
    state.program = &graph_.roles[role].program;
    state.prepared = &prepared_[role];
    state.cursor.assign(state.program->stream_count, 0);
    state.announced.assign(state.program->stream_count, 0);
    state.arrivals.assign(state.program->comm_slot_count, 0);
    state.channel_arrivals.assign(state.prepared->channels.size(), 0);
    states_.push_back(std::move(state));
  }

  void AddCommunicator(CommId comm) {
    std::vector<CommSide> sides;
    for (const uint32_t member : graph_.communicators.members_of(comm)) {
      const uint16_t slot = CommSlotOf(graph_.ranks, Rank(member), comm);
      if (slot != kNoSlot) {
        sides.push_back({classes_.class_of[member], slot});
      }
    }
    std::ranges::sort(sides);
    sides.erase(std::unique(sides.begin(), sides.end()), sides.end());
    sides_.push_back(std::move(sides));
  }

  void FindOtherEnds(const std::vector<uint16_t>& reverse_slot, ClassState& state) {
    state.other_end.resize(state.prepared->channels.size());
    for (const auto& [key, channel] : state.prepared->channels) {
      const auto [comm_slot, peer_slot, is_send] = key;
      const Rank peer(graph_.ranks.peers(state.rank)[peer_slot]);
      const CommId comm(graph_.ranks.comms(state.rank)[comm_slot]);
      const uint32_t rank_class = classes_.class_of[peer.value()];
      const auto& channels = states_[rank_class].prepared->channels;
      const auto found = channels.find(
          {CommSlotOf(graph_.ranks, peer, comm),
           reverse_slot[graph_.ranks.peer_begin[state.rank.value()] + peer_slot], !is_send});
      PRISM_CHECK(found != channels.end());  // CheckPeerTransfers has paired them
      state.other_end[channel] = {rank_class, found->second};
    }
  }

  void Enqueue(uint32_t rank_class) {
    if (!states_[rank_class].queued) {
      states_[rank_class].queued = true;
      queue_.push_back(rank_class);
    }
  }

  [[nodiscard]] static bool Drained(const ClassState& state, uint16_t stream) {
    const std::vector<uint32_t>& ops = state.prepared->stream_ops[stream];
    const uint32_t place = state.cursor[stream];
    return place == ops.size() || ops[place] >= state.host;
  }

  [[nodiscard]] static bool Done(const ClassState& state, uint32_t op) {
    return op == kNoDep || state.cursor[state.program->stream[op]] > state.prepared->place[op];
  }

  [[nodiscard]] static bool Finished(const ClassState& state) {
    if (state.host < state.program->size()) {
      return false;
    }
    for (uint16_t stream = 0; stream < state.program->stream_count; ++stream) {
      if (!Drained(state, stream)) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] static bool HostBlocked(const ClassState& state) {
    const Program& program = *state.program;
    switch (program.kind[state.host]) {
      case OpKind::kEventSync:
        return !Done(state, program.dep[state.host]);
      case OpKind::kStreamSync:
        return !Drained(state, program.stream[state.host]);
      case OpKind::kDeviceSync:
        for (uint16_t stream = 0; stream < program.stream_count; ++stream) {
          if (!Drained(state, stream)) {
            return true;
          }
        }
        return false;
      default:
        return false;
    }
  }

  void Advance(ClassState& state) {
    bool moved = true;
    while (moved) {
      moved = false;
      while (state.host < state.program->size() && !HostBlocked(state)) {
        ++state.host;
        moved = true;
      }
      for (uint16_t stream = 0; stream < state.program->stream_count; ++stream) {
        moved = AdvanceStream(state, stream) || moved;
      }
    }
  }

  bool AdvanceStream(ClassState& state, uint16_t stream) {
    bool moved = false;
    while (!Drained(state, stream)) {
      const uint32_t end = GroupEnd(state, stream);
      if (end == kAbsent || !ArriveAndTest(state, stream, end)) {
        return moved;
      }
      state.cursor[stream] = end;
      moved = true;
    }
    return moved;
  }

  // Collectives of one NCCL group on one stream start together. Returns the place after the group
  // at the stream's cursor (of one op where there is none); kAbsent while it is not fully issued.
  [[nodiscard]] static uint32_t GroupEnd(const ClassState& state, uint16_t stream) {
    const std::vector<uint32_t>& ops = state.prepared->stream_ops[stream];
    uint32_t place = state.cursor[stream];
    while (state.program->kind[ops[place]] == OpKind::kCollective &&
           (state.program->flags[ops[place]] & kGroupedWithNext) != 0 && place + 1 < ops.size() &&
           state.program->kind[ops[place + 1]] == OpKind::kCollective) {
      ++place;
      if (ops[place] >= state.host) {
        return kAbsent;
      }
    }
    return place + 1;
  }

  // Lets the ops from the stream's cursor to `end` arrive where they meet others; true when all
  // have completed.
  bool ArriveAndTest(ClassState& state, uint16_t stream, uint32_t end) {
    const std::vector<uint32_t>& ops = state.prepared->stream_ops[stream];
    const bool first_time = state.announced[stream] < end;
    state.announced[stream] = std::max(state.announced[stream], end);
    bool over = true;
    for (uint32_t place = state.cursor[stream]; place < end; ++place) {
      if (first_time) {
        Arrive(state, ops[place]);
      }
    }
    for (uint32_t place = state.cursor[stream]; place < end; ++place) {
      over = over && WaitsFor(state, ops[place]) == kAbsent;
    }
    return over;
  }

  void Arrive(ClassState& state, uint32_t op) {
    const Program& program = *state.program;
    if (program.kind[op] == OpKind::kCollective) {
      ++state.arrivals[program.comm_slot[op]];
      for (const CommSide& side : SidesOf(state, program.comm_slot[op])) {
        Enqueue(side.rank_class);
      }
    } else if (program.kind[op] == OpKind::kPeerGroup) {
      const size_t count = program.peer_groups[program.signature[op]].transfers.size();
      const uint32_t first = state.prepared->first_transfer[op];
      for (size_t i = 0; i < count; ++i) {
        const uint32_t channel = state.prepared->channel[first + i];
        ++state.channel_arrivals[channel];
        Enqueue(state.other_end[channel].rank_class);
      }
    }
  }

  [[nodiscard]] const std::vector<CommSide>& SidesOf(const ClassState& state, uint16_t slot) const {
    return sides_[classes_.comm_class_of[graph_.ranks.comms(state.rank)[slot]]];
  }

  // The class that has not yet arrived where a stream op must meet it (the op's own class for an
  // event that is not complete); kAbsent when the op can complete.
  [[nodiscard]] uint32_t WaitsFor(const ClassState& state, uint32_t op) const {
    const Program& program = *state.program;
    switch (program.kind[op]) {
      case OpKind::kEventWait:
        return Done(state, program.dep[op]) ? kAbsent : classes_.class_of[state.rank.value()];
      case OpKind::kCollective:
        for (const CommSide& side : SidesOf(state, program.comm_slot[op])) {
          if (states_[side.rank_class].arrivals[side.slot] <= state.prepared->sequence[op]) {
            return side.rank_class;
          }
        }
        return kAbsent;
      case OpKind::kPeerGroup:
        return WaitsForPeer(state, op);
      default:
        return kAbsent;
    }
  }

  [[nodiscard]] uint32_t WaitsForPeer(const ClassState& state, uint32_t op) const {
    const std::vector<PeerTransfer>& transfers =
        state.program->peer_groups[state.program->signature[op]].transfers;
    const uint32_t first = state.prepared->first_transfer[op];
    for (size_t i = 0; i < transfers.size(); ++i) {
      const OtherEnd& other = state.other_end[state.prepared->channel[first + i]];
      if (transfers[i].is_send && transfers[i].bytes < buffered_bytes_) {
        continue;
      }
      if (states_[other.rank_class].channel_arrivals[other.channel] <=
          state.prepared->ordinal[first + i]) {
        return other.rank_class;
      }
    }
    return kAbsent;
  }

  // Adds the fault of one stalled class; returns the class that it waits for.
  uint32_t ReportStall(const ClassState& state, FaultList& faults) const {
    for (uint16_t stream = 0; stream < state.program->stream_count; ++stream) {
      if (Drained(state, stream)) {
        continue;
      }
      const uint32_t op = state.prepared->stream_ops[stream][state.cursor[stream]];
      const uint32_t other = WaitsFor(state, op);
      if (other == kAbsent || states_[other].rank == state.rank) {
        continue;  // another stream of this class is at fault and is reported there
      }
      faults.Add("stall", fmt::format("{} waits for rank {}, which {}",
                                      DescribeRankOp(graph_, state.rank, op),
                                      states_[other].rank.value(), Position(states_[other])));
      return other;
    }
    faults.Add("stall", fmt::format("rank {} {}", state.rank.value(), Position(state)));
    return kAbsent;
  }

  // Where a class is: the host's next op, and the op at which each busy stream is held.
  [[nodiscard]] std::string Position(const ClassState& state) const {
    std::string text = state.host < state.program->size()
                           ? fmt::format("stands at op {} ({})", state.host,
                                         DescribeOp(graph_, state.rank, state.host))
                           : std::string("has issued all ops");
    for (uint16_t stream = 0; stream < state.program->stream_count; ++stream) {
      if (!Drained(state, stream)) {
        const uint32_t op = state.prepared->stream_ops[stream][state.cursor[stream]];
        text += fmt::format(", stream {} is held at op {} ({})", stream, op,
                            DescribeOp(graph_, state.rank, op));
      }
    }
    return text;
  }

  const Graph& graph_;
  int64_t buffered_bytes_;
  RankClasses classes_;
  std::vector<Prepared> prepared_;            // by role
  std::vector<ClassState> states_;            // by class
  std::vector<std::vector<CommSide>> sides_;  // by communicator class
  std::deque<uint32_t> queue_;
};

}  // namespace

void CheckExecution(const Graph& graph, int64_t buffered_bytes, FaultList& faults) {
  Execution execution(graph, buffered_bytes);
  execution.Run();
  execution.Report(faults);
}

}  // namespace prism::graph::internal
