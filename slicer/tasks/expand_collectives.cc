#include "slicer/tasks/expand_collectives.h"

#include <algorithm>
#include <span>
#include <vector>

#include "graph/base/divide.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

// Messages of one collective on one rank. The first messages take over what it waits for; its end
// is a list of tasks.
class Expander {
 public:
  Expander(const graph::Graph& graph, const TaskGraph& tasks) : graph_(graph), tasks_(tasks) {
    index_.Build(tasks);
    ends_.resize(tasks.tasks.size());
    begins_.resize(tasks.tasks.size());
    expanded_.rank = tasks.rank;
  }

  TaskGraph Run(Notes* notes) {
    int64_t collectives = 0;
    for (uint32_t task = 0; task < tasks_.tasks.size(); ++task) {
      waits_.clear();
      for (uint32_t i = index_.begin[task]; i < index_.begin[task + 1]; ++i) {
        TakeEdge(index_.edges[i]);
      }
      first_ = static_cast<uint32_t>(expanded_.tasks.size());
      if (tasks_.tasks[task].kind == TaskKind::kCollective) {
        ++collectives;
        Expand(tasks_.tasks[task], &ends_[task]);
      } else {
        ends_[task] = {Add(tasks_.tasks[task], waits_)};
      }
      begins_[task] = first_;
    }
    notes->Add("collectives are written as messages of a ring, a chain or pairs", collectives);
    return std::move(expanded_);
  }

 private:
  using Waits = std::vector<TaskEdge>;

  void TakeEdge(const TaskEdge& edge) {
    if (edge.begun) {
      waits_.push_back({0, begins_[edge.on], true});
      return;
    }
    for (const uint32_t end : ends_[edge.on]) {
      waits_.push_back({0, end, false});
    }
  }

  uint32_t Add(const Task& task, const Waits& waits) {
    const uint32_t id = expanded_.Add(task);
    for (const TaskEdge& wait : waits) {
      expanded_.edges.push_back({id, wait.on, wait.begun});
    }
    return id;
  }

  uint32_t Message(const Task& of, bool is_send, uint32_t peer, int64_t bytes, const Waits& waits) {
    Task message = of;
    message.kind = is_send ? TaskKind::kSend : TaskKind::kReceive;
    message.peer = peer;
    message.value = bytes;
    message.shape = 0;
    return Add(message, waits);
  }

  void Expand(const Task& task, std::vector<uint32_t>* ends) {
    const graph::CollectiveShape& shape = tasks_.collectives[task.shape];
    const auto members = graph_.communicators.members_of(CommId(task.comm));
    const auto size = static_cast<int64_t>(members.size());
    const int64_t own = std::ranges::lower_bound(members, tasks_.rank.value()) - members.begin();
    if (size == 1) {
      Task nothing = task;
      nothing.kind = TaskKind::kCompute;
      nothing.shape = 0;
      *ends = {Add(nothing, waits_)};
      return;
    }
    const int64_t part = DivideUp(shape.bytes, size);
    switch (shape.kind) {
      case CollectiveKind::kAllReduce:
        Ring(task, 2 * (size - 1), part, {members, own}, ends);
        break;
      case CollectiveKind::kAllGather:
      case CollectiveKind::kReduceScatter:
        Ring(task, size - 1, part, {members, own}, ends);
        break;
      case CollectiveKind::kBroadcast:
        Chain(task, (own - shape.root + size) % size, shape, {members, own}, ends);
        break;
      case CollectiveKind::kReduce:
        Chain(task, (shape.root - own + size) % size, shape, {members, own}, ends);
        break;
      case CollectiveKind::kAllToAll:
        for (int64_t step = 1; step < size; ++step) {
          ends->push_back(Message(task, true, Member(members, own + step), part, waits_));
          ends->push_back(Message(task, false, Member(members, own - step), part, waits_));
        }
        break;
      case CollectiveKind::kGather:
      case CollectiveKind::kScatter:
        Star(task, shape, part, {members, own}, ends);
        break;
    }
  }

  struct Place {
    std::span<const uint32_t> members;
    int64_t own = 0;
  };

  static uint32_t Member(std::span<const uint32_t> members, int64_t index) {
    const auto size = static_cast<int64_t>(members.size());
    return members[static_cast<size_t>((index % size + size) % size)];
  }

  void Ring(const Task& task,
            int64_t steps,
            int64_t bytes,
            const Place& place,
            std::vector<uint32_t>* ends) {
    Waits arrived = waits_;
    uint32_t sent = 0;
    for (int64_t step = 0; step < steps; ++step) {
      sent = Message(task, true, Member(place.members, place.own + 1), bytes, arrived);
      const uint32_t received =
          Message(task, false, Member(place.members, place.own - 1), bytes, arrived);
      arrived = {{0, received, false}};
      if (step + 1 == steps) {
        *ends = {sent, received};
      }
    }
  }

  // `position` counts from where the bytes come: the root of a broadcast, which a chain leaves in
  // ascending order, or the root of a reduce, which it reaches in ascending order.
  void Chain(const Task& task,
             int64_t position,
             const graph::CollectiveShape& shape,
             const Place& place,
             std::vector<uint32_t>* ends) {
    const auto size = static_cast<int64_t>(place.members.size());
    const bool from_root = shape.kind == CollectiveKind::kBroadcast;
    const bool receives = from_root ? position > 0 : position < size - 1;
    const bool sends = from_root ? position < size - 1 : position > 0;
    Waits arrived = waits_;
    if (receives) {
      const uint32_t received =
          Message(task, false, Member(place.members, place.own - 1), shape.bytes, waits_);
      arrived = {{0, received, false}};
      *ends = {received};
    }
    if (sends) {
      *ends = {Message(task, true, Member(place.members, place.own + 1), shape.bytes, arrived)};
    }
  }

  void Star(const Task& task,
            const graph::CollectiveShape& shape,
            int64_t bytes,
            const Place& place,
            std::vector<uint32_t>* ends) {
    const bool root_sends = shape.kind == CollectiveKind::kScatter;
    if (place.own != shape.root) {
      *ends = {Message(task, !root_sends, Member(place.members, shape.root), bytes, waits_)};
      return;
    }
    for (const uint32_t member : place.members) {
      if (member != tasks_.rank.value()) {
        ends->push_back(Message(task, root_sends, member, bytes, waits_));
      }
    }
  }

  const graph::Graph& graph_;
  const TaskGraph& tasks_;
  TaskEdgeIndex index_;
  TaskGraph expanded_;
  std::vector<std::vector<uint32_t>> ends_;  // by task: tasks of `expanded_`
  std::vector<uint32_t> begins_;             // by task: likewise
  Waits waits_;                              // of the task at hand
  uint32_t first_ = 0;
};

}  // namespace

TaskGraph ExpandCollectives(const graph::Graph& graph, const TaskGraph& tasks, Notes* notes) {
  return Expander(graph, tasks).Run(notes);
}

}  // namespace prism::slicer
