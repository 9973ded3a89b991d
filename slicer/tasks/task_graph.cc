// Sorting millions of edges would cost more than all else here. A file that lists edges by the task
// that waits, and tasks after what they wait for, is recognised in one pass and taken as it is.
// Otherwise edges are sorted by counting, and tasks by Kahn's algorithm with the earliest of the
// ready tasks first, which keeps the given order wherever nothing forces another.
#include "slicer/tasks/task_graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include <fmt/format.h>

namespace prism::slicer {

void TaskEdgeIndex::Build(const TaskGraph& tasks) {
  begin.assign(tasks.tasks.size() + 1, 0);
  for (const TaskEdge& edge : tasks.edges) {
    ++begin[edge.task + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  if (std::ranges::is_sorted(tasks.edges, {}, &TaskEdge::task)) {
    edges = tasks.edges;
    return;
  }
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  edges.resize(tasks.edges.size());
  for (const TaskEdge& edge : tasks.edges) {
    edges[next[edge.task]++] = edge;
  }
}

Status OrderTasks(const TaskGraph& tasks,
                  const TaskEdgeIndex& index,
                  std::vector<uint32_t>* order) {
  const auto count = static_cast<uint32_t>(tasks.tasks.size());
  order->resize(count);
  std::iota(order->begin(), order->end(), 0U);
  if (std::ranges::all_of(index.edges, [](const TaskEdge& edge) { return edge.on < edge.task; })) {
    return OkStatus();
  }
  std::vector<uint32_t> open(count);              // what each task still waits for
  std::vector<uint32_t> waiter_begin(count + 1);  // the edges by what is waited for
  for (const TaskEdge& edge : index.edges) {
    ++open[edge.task];
    ++waiter_begin[edge.on + 1];
  }
  std::partial_sum(waiter_begin.begin(), waiter_begin.end(), waiter_begin.begin());
  std::vector<uint32_t> waiters(index.edges.size());
  std::vector<uint32_t> next(waiter_begin.begin(), waiter_begin.end() - 1);
  for (const TaskEdge& edge : index.edges) {
    waiters[next[edge.on]++] = edge.task;
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t task = 0; task < count; ++task) {
    if (open[task] == 0) {
      ready.push(task);
    }
  }
  order->clear();
  while (!ready.empty()) {
    const uint32_t task = ready.top();
    ready.pop();
    order->push_back(task);
    for (uint32_t i = waiter_begin[task]; i < waiter_begin[task + 1]; ++i) {
      if (--open[waiters[i]] == 0) {
        ready.push(waiters[i]);
      }
    }
  }
  if (order->size() == count) {
    return OkStatus();
  }
  const auto stuck = static_cast<size_t>(
      std::ranges::find_if(open, [](uint32_t left) { return left > 0; }) - open.begin());
  return BadFile(fmt::format("{}: tasks of rank {} wait for each other in a circle, this one too",
                             tasks.tasks[stuck].line, tasks.rank.value()));
}

}  // namespace prism::slicer
