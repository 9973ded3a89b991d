#include "replayer/blame/critical_path.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/rank_slots.h"
#include "replayer/blame/role_index.h"
#include "replayer/blame/traces.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/engine/engine.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

// What the path has reached, walking from the end.
enum class Event : uint8_t {
  kEnd,    // the op ends on its stream
  kStart,  // it begins there
  kIssue,  // the host has issued it
  kPass,   // the host continues after it
  kBegin,  // nothing came before
};

struct Place {
  Event event = Event::kBegin;
  Rank rank;
  OpPosition position = 0;
  TimeNs time = 0;
};

class Walker {
 public:
  Walker(const graph::Graph& graph, Traces traces)
      : graph_(graph), traces_(std::move(traces)), cost_(graph.cluster) {
    indices_.resize(graph.roles.size());
  }

  Result<CriticalPath> Run() && {
    PRISM_RETURN_IF_ERROR(Begin());
    while (place_.event != Event::kBegin && place_.time > path_.begin) {
      PRISM_ASSIGN_OR_RETURN(const Timeline* timeline, traces_.Of(place_.rank));
      switch (place_.event) {
        case Event::kEnd:
          PRISM_RETURN_IF_ERROR(LeaveEnd(*timeline));
          break;
        case Event::kStart:
          LeaveStart(*timeline);
          break;
        case Event::kPass:
          LeavePass(*timeline);
          break;
        default:
          LeaveIssue(*timeline);
          break;
      }
    }
    std::ranges::reverse(path_.steps);
    path_.replays = traces_.replays();
    return std::move(path_);
  }

 private:
  const RoleIndex& IndexOf(Rank rank) {
    std::unique_ptr<RoleIndex>& index = indices_[graph_.ranks.role[rank.value()]];
    if (index == nullptr) {
      index = std::make_unique<RoleIndex>(graph_, graph_.ranks.role[rank.value()]);
    }
    return *index;
  }

  [[nodiscard]] uint32_t SizeOf(Rank rank) const { return graph_.role_of(rank).program.size(); }

  // The slowest rank, and what its next iteration could begin with.
  Status Begin() {
    const std::vector<RankTimes>& ranks = traces_.result().ranks;
    const auto slowest = std::ranges::max_element(ranks, {}, &RankTimes::iteration_ns);
    path_.rank = Rank(static_cast<uint32_t>(slowest - ranks.begin()));
    const RolePlan& plan = IndexOf(path_.rank).plan;
    if (plan.first_op == kNone) {
      return InvalidArgument(
          "the slowest rank does nothing on a device: there is no critical path");
    }
    PRISM_ASSIGN_OR_RETURN(const Timeline* timeline, traces_.Of(path_.rank));
    const OpPosition behind = OpPosition{traces_.options().iterations} * plan.size();
    const OpPosition last = behind - plan.size();
    path_.begin = timeline->start[static_cast<size_t>(last + plan.first_op)];
    path_.end = path_.begin + slowest->iteration_ns;
    const uint32_t tail = plan.streams[plan.first_stream].back().op;
    if (timeline->end[static_cast<size_t>(last + tail)] == path_.end) {
      place_ = {Event::kEnd, path_.rank, last + tail, path_.end};
      return OkStatus();
    }
    place_.rank = path_.rank;
    // The part of the iteration after the last that is run ends with a host wait.
    const OpPosition before = behind + plan.ahead - 1;
    const Place host = {Event::kPass, path_.rank, before, HostEnd(*timeline, before, path_.end)};
    Go(host, PathKind::kHost, path_.rank, plan.first_op, path_.end);
    return OkStatus();
  }

  // The path continues at `next`; from there to `end` is one step of it.
  void Go(const Place& next, PathKind kind, Rank rank, uint32_t op, TimeNs end) {
    Go(next, {rank, op, kind, rank, next.time, end});
  }

  void Go(const Place& next, PathStep step) {
    PRISM_CHECK_LE(next.time, step.end);
    step.begin = std::max(step.begin, path_.begin);
    if (step.end > step.begin) {
      path_.steps.push_back(step);
    }
    place_ = next;
  }

  // When the host continues after an op; an op of an NCCL group is noted with its last.
  TimeNs HostEnd(const Timeline& timeline, OpPosition position, TimeNs bound) {
    const auto index = static_cast<size_t>(position);
    const auto op = static_cast<uint32_t>(position % SizeOf(place_.rank));
    const bool waits = IndexOf(place_.rank).host_waits.contains(op);
    return std::min(bound, waits ? timeline.end[index] : timeline.issue[index]);
  }

  Status LeaveEnd(const Timeline& timeline) {
    const Rank rank = place_.rank;
    const OpPosition position = place_.position;
    const auto op = static_cast<uint32_t>(position % SizeOf(rank));
    const auto index = static_cast<size_t>(position);
    const Step& step = IndexOf(rank).StepOf(op);
    const Place start = {Event::kStart, rank, position, timeline.start[index]};
    switch (step.kind) {
      case StepKind::kWork:
        Go(start, step.compute ? PathKind::kCompute : PathKind::kCopy, rank, op, place_.time);
        break;
      case StepKind::kRecord:
        place_ = start;
        break;
      case StepKind::kWait: {
        const uint32_t dep = graph_.role_of(rank).program.dep[op];
        Place recorded = {Event::kEnd, rank, position - op + dep, 0};
        if (dep != graph::kNoDep) {
          recorded.time = timeline.end[static_cast<size_t>(recorded.position)];
        }
        const bool by_event = recorded.time > start.time;
        Go(by_event ? recorded : start, PathKind::kOverlap, rank, op, place_.time);
        break;
      }
      case StepKind::kCollective:
        return LeaveCollective(timeline);
      case StepKind::kPeerGroup:
        return LeavePeerGroup(timeline);
    }
    return OkStatus();
  }

  // To the member that came last, at the op by which it called.
  Status LeaveCollective(const Timeline& timeline) {
    const Rank rank = place_.rank;
    const TimeNs end = place_.time;
    const auto index = static_cast<size_t>(place_.position);
    const RoleIndex& own = IndexOf(rank);
    const CollectiveCall& call = own.plan.calls[timeline.decisive[index]];
    const uint32_t last = timeline.last[index];
    const OpPosition origin =
        place_.position - static_cast<OpPosition>(place_.position % SizeOf(rank));
    Place start = {Event::kStart, rank, origin + call.op, timeline.start[index]};
    const uint32_t comm = graph_.ranks.comms(rank)[call.comm_slot];
    if (traces_.StandsFor(rank).value() != last) {
      const auto members = graph_.communicators.members_of(CommId(comm));
      const auto found = std::ranges::find_if(members, [&](uint32_t member) {
        return traces_.StandsFor(Rank(member)).value() == last;
      });
      PRISM_CHECK(found != members.end());
      start.rank = Rank(*found);
      const uint16_t slot = graph::CommSlotOf(graph_.ranks, start.rank, CommId(comm));
      start.position = origin / SizeOf(rank) * SizeOf(start.rank) +
                       IndexOf(start.rank).call_ops[slot][call.sequence];
      PRISM_ASSIGN_OR_RETURN(const Timeline* others, traces_.Of(start.rank));
      start.time = others->start[static_cast<size_t>(start.position)];
    }
    Go(start, PathKind::kTransfer, rank, call.op, end);
    return OkStatus();
  }

  // To the other side of the transfer that ended last, or to this rank's own side if that came
  // later.
  Status LeavePeerGroup(const Timeline& timeline) {
    const Rank rank = place_.rank;
    const TimeNs end = place_.time;
    const OpPosition position = place_.position;
    const auto op = static_cast<uint32_t>(position % SizeOf(rank));
    const auto index = static_cast<size_t>(position);
    const RolePlan& plan = IndexOf(rank).plan;
    const Place own = {Event::kStart, rank, position, timeline.start[index]};
    const PeerPost& post = plan.posts[timeline.decisive[index]];
    const Endpoint& endpoint = plan.endpoints[post.endpoint];
    const Rank peer = Rank(graph_.ranks.peers(rank)[endpoint.peer_slot]);
    PathStep step = {rank, op, PathKind::kTransfer, peer, own.time, end};
    const bool eager = cost_.IsEager(post.bytes);
    if ((eager && endpoint.is_send) || end == own.time) {
      Go(own, step);
      return OkStatus();
    }
    Place other = {Event::kStart, peer, 0, 0};
    other.position = position / SizeOf(rank) * SizeOf(peer) + OppositeOp(rank, peer, post);
    PRISM_ASSIGN_OR_RETURN(const Timeline* others, traces_.Of(peer));
    other.time = others->start[static_cast<size_t>(other.position)];
    // An eager message was already on its way when the receiver came.
    const Place next = eager || other.time > own.time ? other : own;
    step.begin = next.time;
    Go(next, step);
    return OkStatus();
  }

  // The op with which the peer posts the other side.
  uint32_t OppositeOp(Rank rank, Rank peer, const PeerPost& post) {
    const Endpoint& mine = IndexOf(rank).plan.endpoints[post.endpoint];
    const uint32_t comm = graph_.ranks.comms(rank)[mine.comm_slot];
    const RoleIndex& index = IndexOf(peer);
    for (uint32_t e = 0; e < index.plan.endpoints.size(); ++e) {
      const Endpoint& theirs = index.plan.endpoints[e];
      if (theirs.is_send != mine.is_send && graph_.ranks.comms(peer)[theirs.comm_slot] == comm &&
          graph_.ranks.peers(peer)[theirs.peer_slot] == rank.value()) {
        return index.post_ops[e][post.sequence];
      }
    }
    PRISM_CHECK(false);
    return 0;
  }

  // To what the stream did before, or to the host.
  void LeaveStart(const Timeline& timeline) {
    const RoleIndex& index = IndexOf(place_.rank);
    const OpPosition n = SizeOf(place_.rank);
    const auto op = static_cast<uint32_t>(place_.position % n);
    const uint16_t stream = graph_.role_of(place_.rank).program.stream[op];
    const std::vector<Step>& steps = index.plan.streams[stream];
    const uint32_t step = index.step_of[op];
    OpPosition before = place_.position - op + (step > 0 ? steps[step - 1].op : steps.back().op);
    before -= step > 0 ? 0 : n;
    if (before >= 0 && timeline.end[static_cast<size_t>(before)] == place_.time) {
      place_ = {Event::kEnd, place_.rank, before, place_.time};
      return;
    }
    // A group is issued when its last op is.
    place_.position += OpPosition{steps[step].op} - op;
    place_.event = Event::kIssue;
    PRISM_CHECK_EQ(timeline.issue[static_cast<size_t>(place_.position)], place_.time);
  }

  // To what the host waited for, where the op is a wait.
  void LeavePass(const Timeline& timeline) {
    const auto op = static_cast<uint32_t>(place_.position % SizeOf(place_.rank));
    const auto wait = IndexOf(place_.rank).host_waits.find(op);
    if (wait == IndexOf(place_.rank).host_waits.end()) {
      place_.event = Event::kIssue;
    } else {
      LeaveHostWait(timeline, wait->second);
    }
  }

  // The host has been busy with this op since it issued the one before.
  void LeaveIssue(const Timeline& timeline) {
    const Rank rank = place_.rank;
    const TimeNs issued = place_.time;
    const auto op = static_cast<uint32_t>(place_.position % SizeOf(rank));
    if (place_.position == 0) {
      const TimeNs delay = std::min(issued, DelayOf(rank));
      Go({Event::kBegin, rank, 0, delay}, PathKind::kHost, rank, op, issued);
      Go({Event::kBegin, rank, 0, 0}, PathKind::kLate, rank, op, delay);
      return;
    }
    const OpPosition before = place_.position - 1;
    Go({Event::kPass, rank, before, HostEnd(timeline, before, issued)}, PathKind::kHost, rank, op,
       issued);
  }

  void LeaveHostWait(const Timeline& timeline, const HostWait& wait) {
    const Rank rank = place_.rank;
    const TimeNs end = place_.time;
    const OpPosition origin = place_.position - wait.op;
    Place next = {Event::kIssue, rank, place_.position,
                  timeline.issue[static_cast<size_t>(place_.position)]};
    const auto consider = [&](OpPosition position) {
      const TimeNs time = position < 0 ? 0 : timeline.end[static_cast<size_t>(position)];
      if (time > next.time) {
        next = {Event::kEnd, rank, position, time};
      }
    };
    const RoleIndex& index = IndexOf(rank);
    const size_t streams = index.plan.streams.size();
    for (uint16_t stream = 0; stream < streams && wait.kind != OpKind::kEventSync; ++stream) {
      if (index.plan.streams[stream].empty() ||
          (wait.kind == OpKind::kStreamSync && wait.stream != stream)) {
        continue;
      }
      const Step* last = index.LastBefore(stream, wait.op);
      consider(last != nullptr ? origin + last->op
                               : origin - index.plan.size() + index.plan.streams[stream].back().op);
    }
    if (wait.kind == OpKind::kEventSync) {
      consider(origin + graph_.role_of(rank).program.dep[wait.op]);
    }
    Go(next, PathKind::kOverlap, rank, wait.op, end);
  }

  [[nodiscard]] DurationNs DelayOf(Rank rank) const {
    DurationNs delay = 0;
    for (const Perturbation& p : traces_.options().perturbations) {
      if (p.kind == PerturbationKind::kLate && std::ranges::find(p.ranks, rank) != p.ranks.end()) {
        delay += p.delay_ns;
      }
    }
    return delay;
  }

  const graph::Graph& graph_;
  Traces traces_;
  CollectiveCost cost_;
  std::vector<std::unique_ptr<RoleIndex>> indices_;  // by role
  Place place_;
  CriticalPath path_;
};

}  // namespace

Result<CriticalPath> FindCriticalPath(const graph::Graph& graph, const ReplayOptions& options) {
  PRISM_ASSIGN_OR_RETURN(Traces traces, Traces::Create(graph, options));
  return Walker(graph, std::move(traces)).Run();
}

}  // namespace prism::replayer
