// GOAL text, the schedules of LogGOPSim and ATLAHS (https://github.com/spcl/LogGOPSim): one block
// of tasks per rank,
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
// Comments as in C++. A label may be used after its task. Accepts what txt2bin accepts, except
// receives from any source or of any tag (-1), which are refused by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

// Task::comm holds the tag, Task::resource the cpu of any task, Task::nic the network interface.
struct GoalHandler {
  // Called with num_ranks, once, before any rank. A failure ends the reading.
  std::function<Status(uint32_t ranks)> begin;
  // Called once per rank, in the order of the file. May move the contents out.
  std::function<Status(TaskGraph* tasks)> rank;
};

// Reads the whole text. kBadFile: "<file>:<line>: ...".
Status ReadGoalText(std::string_view text, const std::string& file, GoalHandler* handler);

}  // namespace prism::slicer
