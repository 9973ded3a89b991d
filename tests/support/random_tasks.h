// Random tasks of a few ranks that can run; and how long they take, evaluated task by task.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/base/time.h"
#include "slicer/tasks/task_graph.h"

namespace prism::testing {

struct RandomTaskOptions {
  uint64_t seed = 0;
  uint32_t ranks = 3;
  uint32_t events = 30;      // a task of one rank, or a message of two
  uint16_t cpus = 2;         // of compute tasks; messages are on cpu 0
  uint32_t tags = 3;         // Task::comm
  bool begun = true;         // some edges wait for a begin
  bool collectives = false;  // of all ranks, on communicator 0
};

std::vector<slicer::TaskGraph> RandomTasks(const RandomTaskOptions& options);

// How messages behave, as in replayer/cost/collective_cost.h.
struct TaskCosts {
  std::function<DurationNs(int64_t bytes, bool same_node)> transfer;
  std::function<bool(int64_t bytes)> is_eager;
  uint32_t gpus_per_node = 8;
};

// When each rank's last task ends. Compute tasks of a cpu run in the order given. No collectives.
std::vector<TimeNs> EvaluateTasks(const std::vector<slicer::TaskGraph>& ranks,
                                  const TaskCosts& costs);

}  // namespace prism::testing
