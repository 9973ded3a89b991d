#include "tests/support/random_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "graph/base/check.h"
#include "graph/base/rng.h"
#include "tests/support/chance.h"

namespace prism::testing {
namespace {

using slicer::Task;
using slicer::TaskEdge;
using slicer::TaskGraph;
using slicer::TaskKind;

// Edges of a new task to some of its rank's tasks, mostly recent ones. All tasks are created in an
// order in which they could run, so nothing waits in a circle.
void AddEdges(const RandomTaskOptions& options, Rng* rng, TaskGraph* tasks) {
  const auto own = static_cast<int64_t>(tasks->tasks.size()) - 1;
  const int64_t wanted = std::min<int64_t>(own, rng->UniformInt(0, 3));
  for (int64_t i = 0; i < wanted; ++i) {
    const TaskEdge edge = {
        static_cast<uint32_t>(own),
        static_cast<uint32_t>(rng->UniformInt(std::max<int64_t>(0, own - 6), own - 1)),
        options.begun && Chance(rng, 0.2)};
    const bool known = std::any_of(
        tasks->edges.begin(), tasks->edges.end(),
        [&](const TaskEdge& other) { return other.task == edge.task && other.on == edge.on; });
    if (!known) {
      tasks->edges.push_back(edge);
    }
  }
}

struct Times {
  std::optional<TimeNs> begin;
  std::optional<TimeNs> end;
};

// Passes over all tasks until nothing changes: slow and plain.
class Evaluation {
 public:
  Evaluation(const std::vector<TaskGraph>& ranks, const TaskCosts& costs)
      : ranks_(ranks), costs_(costs) {
    for (const TaskGraph& tasks : ranks_) {
      times_.emplace_back(tasks.tasks.size());
      before_.emplace_back(tasks.tasks.size());
      Link(tasks);
    }
  }

  std::vector<TimeNs> Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        for (uint32_t task = 0; task < ranks_[rank].tasks.size(); ++task) {
          moved |= Step(rank, task);
        }
      }
    }
    std::vector<TimeNs> ends(ranks_.size());
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const Times& times : times_[rank]) {
        PRISM_CHECK(times.end.has_value());
        ends[rank] = std::max(ends[rank], *times.end);
      }
    }
    return ends;
  }

 private:
  using Place = std::pair<uint32_t, uint32_t>;               // rank, task
  using Channel = std::tuple<uint32_t, uint32_t, uint32_t>;  // sender, receiver, tag

  void Link(const TaskGraph& tasks) {
    const uint32_t rank = tasks.rank.value();
    std::map<uint16_t, uint32_t> last;  // compute task by cpu
    for (uint32_t i = 0; i < tasks.tasks.size(); ++i) {
      const Task& task = tasks.tasks[i];
      if (task.kind == TaskKind::kCompute) {
        const auto found = last.find(task.resource);
        if (found != last.end()) {
          before_[rank][i] = found->second;
        }
        last[task.resource] = i;
      } else if (task.kind == TaskKind::kSend) {
        sends_[{rank, task.peer, task.comm}].emplace_back(rank, i);
        number_[{rank, i}] = sends_[{rank, task.peer, task.comm}].size() - 1;
      } else {
        receives_[{task.peer, rank, task.comm}].emplace_back(rank, i);
        number_[{rank, i}] = receives_[{task.peer, rank, task.comm}].size() - 1;
      }
    }
  }

  bool Step(uint32_t rank, uint32_t index) {
    Times& times = times_[rank][index];
    const Task& task = ranks_[rank].tasks[index];
    bool moved = false;
    if (!times.begin.has_value()) {
      times.begin = BeginOf(rank, index);
      moved = times.begin.has_value();
    }
    if (times.begin.has_value() && !times.end.has_value()) {
      times.end =
          task.kind == TaskKind::kCompute ? *times.begin + task.value : EndOfMessage(rank, index);
      moved |= times.end.has_value();
    }
    return moved;
  }

  std::optional<TimeNs> BeginOf(uint32_t rank, uint32_t index) const {
    TimeNs begin = 0;
    if (before_[rank][index].has_value()) {
      const Times& before = times_[rank][*before_[rank][index]];
      if (!before.end.has_value()) {
        return std::nullopt;
      }
      begin = *before.end;
    }
    for (const TaskEdge& edge : ranks_[rank].edges) {
      if (edge.task != index) {
        continue;
      }
      const Times& on = times_[rank][edge.on];
      const std::optional<TimeNs> time = edge.begun ? on.begin : on.end;
      if (!time.has_value()) {
        return std::nullopt;
      }
      begin = std::max(begin, *time);
    }
    return begin;
  }

  std::optional<TimeNs> EndOfMessage(uint32_t rank, uint32_t index) const {
    const Task& task = ranks_[rank].tasks[index];
    const bool is_send = task.kind == TaskKind::kSend;
    const DurationNs transfer = costs_.transfer(
        task.value, rank / costs_.gpus_per_node == task.peer / costs_.gpus_per_node);
    const bool eager = costs_.is_eager(task.value);
    const TimeNs own = *times_[rank][index].begin;
    if (is_send && eager) {
      return own + transfer;
    }
    const Channel channel =
        is_send ? Channel{rank, task.peer, task.comm} : Channel{task.peer, rank, task.comm};
    const auto& [other_rank, other] =
        (is_send ? receives_ : sends_).at(channel)[number_.at({rank, index})];
    const std::optional<TimeNs> there = times_[other_rank][other].begin;
    if (!there.has_value()) {
      return std::nullopt;
    }
    return eager ? std::max(own, *there + transfer) : std::max(own, *there) + transfer;
  }

  const std::vector<TaskGraph>& ranks_;
  const TaskCosts& costs_;
  std::vector<std::vector<Times>> times_;                     // by rank and task
  std::vector<std::vector<std::optional<uint32_t>>> before_;  // on the same cpu
  std::map<Channel, std::vector<Place>> sends_;
  std::map<Channel, std::vector<Place>> receives_;
  std::map<Place, size_t> number_;  // of a message on its channel
};

}  // namespace

std::vector<TaskGraph> RandomTasks(const RandomTaskOptions& options) {
  Rng rng(options.seed, "random tasks");
  const auto last_rank = static_cast<int64_t>(options.ranks) - 1;
  std::vector<TaskGraph> ranks(options.ranks);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    ranks[rank].rank = Rank(rank);
  }
  const auto add = [&](uint32_t rank, const Task& task) {
    ranks[rank].Add(task);
    AddEdges(options, &rng, &ranks[rank]);
  };
  for (uint32_t event = 0; event < options.events; ++event) {
    const auto rank = static_cast<uint32_t>(rng.UniformInt(0, last_rank));
    Task task;
    task.resource = 0;
    if (options.ranks == 1 || Chance(&rng, 0.4)) {
      task.resource = static_cast<uint16_t>(rng.UniformInt(0, options.cpus - 1));
      task.value = rng.UniformInt(0, 5'000);
      add(rank, task);
      continue;
    }
    if (options.collectives && Chance(&rng, 0.2)) {
      task.kind = TaskKind::kCollective;
      task.shape = static_cast<uint32_t>(rng.UniformInt(0, 1));
      for (uint32_t member = 0; member < options.ranks; ++member) {
        add(member, task);
      }
      continue;
    }
    const auto other = static_cast<uint32_t>((rank + rng.UniformInt(1, last_rank)) % options.ranks);
    task.kind = TaskKind::kSend;
    task.comm = static_cast<uint32_t>(rng.UniformInt(0, static_cast<int64_t>(options.tags) - 1));
    task.value = rng.UniformInt(1, 1 << 20);
    task.peer = other;
    add(rank, task);
    task.kind = TaskKind::kReceive;
    task.peer = rank;
    add(other, task);
  }
  return ranks;
}

std::vector<TimeNs> EvaluateTasks(const std::vector<TaskGraph>& ranks, const TaskCosts& costs) {
  return Evaluation(ranks, costs).Run();
}

}  // namespace prism::testing
