// GOAL text, the schedules of LogGOPSim and ATLAHS (https://github.com/spcl/LogGOPSim): one block
// of tasks a rank,
//
//   num_ranks 2
//   rank 0 {
//     l1: calc 1000 cpu 1            // ns; cpu 0 unless said
//     l2: send 4096b to 1 tag 7
//     l2 requires l1                 // l2 begins when l1 has ended
//     l3: recv 4096b from 1 tag 8
//     l3 irequires l2                // l3 begins when l2 has begun
//   }
//   rank 1 { ... }
//
// Comments as in C++. A label is known from its task on. What txt2bin takes is taken, but for
// receives from any source or of any tag (-1), which are refused by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

// Task::comm holds the tag, Task::resource the cpu of any task.
struct GoalHandler {
  // num_ranks, once, before any rank. A failure ends the reading.
  std::function<Status(uint32_t ranks)> begin;
  // Each rank once, in the order of the file. May take what it holds.
  std::function<Status(TaskGraph* tasks)> rank;
  int64_t nics = 0;  // counted: messages on another network interface than 0
};

// Reads the whole text. kBadFile: "<file>:<line>: ...".
Status ReadGoalText(std::string_view text, const std::string& file, GoalHandler* handler);

}  // namespace prism::slicer
