#include "slicer/tasks/raise.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "graph/describe.h"

namespace prism::slicer {
namespace {

using graph::OpKind;
using graph::Program;

constexpr uint32_t kNoTask = std::numeric_limits<uint32_t>::max();
constexpr const char* kIterationName = "iteration";  // of the marker around all

// Walks one program in issue order.
class Raiser {
 public:
  Raiser(const graph::Graph& graph, Rank rank, Notes* notes)
      : graph_(graph),
        program_(graph.role_of(rank).program),
        comms_(graph.ranks.comms(rank)),
        peers_(graph.ranks.peers(rank)),
        notes_(notes),
        streams_(program_.stream_count) {
    tasks_.rank = rank;
    tasks_.collectives = program_.collectives;
    events_.resize(program_.size());
  }

  Result<TaskGraph> Run() {
    FindWaits();
    for (uint32_t op = 0; op < program_.size(); ++op) {
      PRISM_RETURN_IF_ERROR(Take(op));
    }
    DropLastJoin();
    notes_->Add("the time that hosts take to issue ops is left out", issued_);
    return std::move(tasks_);
  }

 private:
  // What the next task of a stream waits for.
  struct Stream {
    uint32_t tail = kNoTask;             // the last task
    std::vector<TaskEdge> waits;         // since then; TaskEdge::task is not set
    bool host_seen = false;              // the last task came after the newest host task
    bool joined = true;                  // the host has waited for everything so far
    std::vector<uint32_t> begin_events;  // records that complete when the next task begins
  };

  // What an event record represents: tasks that must have ended, or one that must have begun.
  struct Event {
    std::vector<TaskEdge> edges;
    bool waited = false;  // by some op
  };

  void FindWaits() {
    for (uint32_t op = 0; op < program_.size(); ++op) {
      const uint32_t dep = program_.dep[op];
      if (dep != graph::kNoDep) {
        events_[dep].waited = true;
      }
    }
  }

  Status Take(uint32_t op) {
    switch (program_.kind[op]) {
      case OpKind::kKernel:
      case OpKind::kMemcpy:
      case OpKind::kMemset:
        return TakeWork(op);
      case OpKind::kHostGap:
        TakeHostGap(op);
        break;
      case OpKind::kEventRecord:
        TakeRecord(op);
        break;
      case OpKind::kEventWait:
        TakeWait(op);
        break;
      case OpKind::kEventSync:
        if (program_.dep[op] != graph::kNoDep) {
          JoinHost(events_[program_.dep[op]].edges);
        }
        break;
      case OpKind::kStreamSync:
        JoinHost(PendingOf(program_.stream[op]));
        streams_[program_.stream[op]].joined = true;
        break;
      case OpKind::kDeviceSync:
        JoinAll();
        break;
      case OpKind::kCollective:
        TakeCollective(op);
        break;
      case OpKind::kPeerGroup:
        TakePeerGroup(op);
        break;
      case OpKind::kSegmentAlloc:
      case OpKind::kSegmentFree:
        notes_->Add("allocations of device memory are left out");
        break;
      case OpKind::kMarker:
        TakeMarker(op);
        break;
    }
    return OkStatus();
  }

  void TakeMarker(uint32_t op) {
    const bool begins = (program_.flags[op] & graph::kMarkerBegin) != 0;
    const uint32_t name = program_.signature[op];
    place_ = begins && graph_.strings[name] != kIterationName ? name : 0;
  }

  Status TakeWork(uint32_t op) {
    if ((program_.flags[op] & graph::kDurationFixed) == 0) {
      return InvalidArgument(
          fmt::format("op {} of role {} has no fixed time", op, graph_.role_of(tasks_.rank).name));
    }
    Task task;
    task.name = op;
    task.value = program_.value[op];
    Place(program_.stream[op], task, op);
    return OkStatus();
  }

  void TakeCollective(uint32_t op) {
    Task task;
    task.kind = TaskKind::kCollective;
    task.name = op;
    task.comm = comms_[program_.comm_slot[op]];
    task.shape = program_.signature[op];
    Place(program_.stream[op], task, op);
    if ((program_.flags[op] & graph::kGroupedWithNext) != 0) {
      notes_->Add("collectives of one group run one after the other");
    }
  }

  // The transfers of a group run side by side; what follows waits for all.
  void TakePeerGroup(uint32_t op) {
    const uint16_t stream = program_.stream[op];
    const graph::PeerGroup& group = program_.peer_groups[program_.signature[op]];
    std::vector<TaskEdge> waits = Begin(stream, op);
    std::vector<TaskEdge> ends;
    for (const graph::PeerTransfer& transfer : group.transfers) {
      Task task;
      task.kind = transfer.is_send ? TaskKind::kSend : TaskKind::kReceive;
      task.resource = stream;
      task.name = op;
      task.comm = comms_[transfer.comm_slot];
      task.peer = peers_[transfer.peer_slot];
      task.value = transfer.bytes;
      ends.push_back({0, Add(task, waits), false});
    }
    if (ends.empty()) {
      streams_[stream].waits = std::move(waits);
      return;
    }
    CompleteBegins(stream, ends.front().on);
    streams_[stream].tail = ends.back().on;
    ends.pop_back();
    streams_[stream].waits = std::move(ends);
    streams_[stream].host_seen = true;
    streams_[stream].joined = false;
  }

  void Place(uint16_t stream, Task task, uint32_t op) {
    task.resource = stream;
    const uint32_t id = Add(task, Begin(stream, op));
    CompleteBegins(stream, id);
    streams_[stream].tail = id;
    streams_[stream].waits.clear();
    streams_[stream].host_seen = true;
    streams_[stream].joined = false;
  }

  // Everything that an op issued now on `stream` waits for.
  std::vector<TaskEdge> Begin(uint16_t stream, uint32_t op) {
    issued_ += (program_.flags[op] & graph::kLaunchedWithPrevious) == 0 ? 1 : 0;
    return PendingOf(stream);
  }

  [[nodiscard]] std::vector<TaskEdge> PendingOf(uint16_t stream) const {
    const Stream& state = streams_[stream];
    std::vector<TaskEdge> edges;
    if (state.tail != kNoTask) {
      edges.push_back({0, state.tail, false});
    }
    edges.insert(edges.end(), state.waits.begin(), state.waits.end());
    if (host_ != kNoTask && !state.host_seen) {
      edges.push_back({0, host_, false});
    }
    return edges;
  }

  uint32_t Add(const Task& task, const std::vector<TaskEdge>& waits) {
    const uint32_t id = tasks_.Add(task);
    tasks_.tasks.back().place = task.name == kHostTask ? 0 : place_;
    const auto first = static_cast<std::ptrdiff_t>(tasks_.edges.size());
    for (const TaskEdge& wait : waits) {
      const TaskEdge edge = {id, wait.on, wait.begun};
      if (std::find(tasks_.edges.begin() + first, tasks_.edges.end(), edge) == tasks_.edges.end()) {
        tasks_.edges.push_back(edge);
      }
    }
    return id;
  }

  // Directly after a task, a record marks its end; after a wait, the begin of the next task, unless
  // that waits for more.
  void TakeRecord(uint32_t op) {
    if (!events_[op].waited) {
      return;
    }
    const uint16_t stream = program_.stream[op];
    const Stream& state = streams_[stream];
    events_[op].edges = PendingOf(stream);
    if (state.tail == kNoTask || !state.waits.empty() || (host_ != kNoTask && !state.host_seen)) {
      streams_[stream].begin_events.push_back(op);
    }
  }

  void CompleteBegins(uint16_t stream, uint32_t task) {
    for (const uint32_t record : streams_[stream].begin_events) {
      events_[record].edges.assign(1, {0, task, true});
    }
    streams_[stream].begin_events.clear();
  }

  void TakeWait(uint32_t op) {
    const uint32_t record = program_.dep[op];
    if (record == graph::kNoDep || program_.stream[record] == program_.stream[op]) {
      return;
    }
    Stream& stream = streams_[program_.stream[op]];
    const std::vector<TaskEdge>& edges = events_[record].edges;
    stream.waits.insert(stream.waits.end(), edges.begin(), edges.end());
    stream.joined = stream.joined && edges.empty();
    stream.begin_events.clear();
  }

  void TakeHostGap(uint32_t op) {
    Task task;
    task.name = op;
    task.value = program_.value[op];
    AddHost(task, {});
  }

  void JoinHost(const std::vector<TaskEdge>& edges) {
    if (edges.empty() || (edges.size() == 1 && edges.front().on == host_)) {
      return;
    }
    Task task;
    task.name = kHostTask;
    AddHost(task, edges);
  }

  void JoinAll() {
    std::vector<TaskEdge> edges;
    for (uint16_t stream = 0; stream < program_.stream_count; ++stream) {
      if (streams_[stream].joined) {
        continue;
      }
      streams_[stream].joined = true;
      const std::vector<TaskEdge> pending = PendingOf(stream);
      edges.insert(edges.end(), pending.begin(), pending.end());
    }
    JoinHost(edges);
  }

  // The iteration ends with a wait for everything, which nothing waits for.
  void DropLastJoin() {
    if (tasks_.tasks.empty() || tasks_.tasks.back().name != kHostTask) {
      return;
    }
    const auto last = static_cast<uint32_t>(tasks_.tasks.size() - 1);
    std::erase_if(tasks_.edges, [last](const TaskEdge& edge) { return edge.task == last; });
    tasks_.tasks.pop_back();
  }

  void AddHost(Task task, std::vector<TaskEdge> edges) {
    task.resource = program_.stream_count;
    if (host_ != kNoTask) {
      edges.push_back({0, host_, false});
    }
    host_ = Add(task, edges);
    for (Stream& stream : streams_) {
      stream.host_seen = false;
      stream.begin_events.clear();
    }
  }

  const graph::Graph& graph_;
  const Program& program_;
  std::span<const uint32_t> comms_;
  std::span<const uint32_t> peers_;
  Notes* notes_;
  TaskGraph tasks_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;  // by op
  uint32_t host_ = kNoTask;    // the newest task of the host
  uint32_t place_ = 0;         // string id of the marker that began last and has not ended
  int64_t issued_ = 0;
};

}  // namespace

Result<TaskGraph> RaiseRank(const graph::Graph& graph, Rank rank, Notes* notes) {
  return Raiser(graph, rank, notes).Run();
}

}  // namespace prism::slicer
