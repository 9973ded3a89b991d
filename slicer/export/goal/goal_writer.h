// Tasks → GOAL text (slicer/import/goal/goal_text.h).
#pragma once

#include <cstdint>
#include <string>

#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

// The line before all ranks.
std::string GoalTextHead(uint32_t ranks);

// One rank's block. Task::comm is the tag, Task::resource the cpu. An edge is written after the
// later of its two tasks.
void AppendGoalText(const TaskGraph& tasks, std::string* text);

}  // namespace prism::slicer
