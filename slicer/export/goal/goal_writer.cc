#include "slicer/export/goal/goal_writer.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>

namespace prism::slicer {

std::string GoalTextHead(uint32_t ranks) {
  return fmt::format("num_ranks {}\n", ranks);
}

void AppendGoalText(const TaskGraph& tasks, std::string* text) {
  std::vector<TaskEdge> edges = tasks.edges;
  std::ranges::stable_sort(edges, [](const TaskEdge& a, const TaskEdge& b) {
    return std::max(a.task, a.on) < std::max(b.task, b.on);
  });
  auto edge = edges.begin();
  auto out = std::back_inserter(*text);
  fmt::format_to(out, "\nrank {} {{\n", tasks.rank.value());
  for (uint32_t i = 0; i < tasks.tasks.size(); ++i) {
    const Task& task = tasks.tasks[i];
    if (task.kind == TaskKind::kCompute) {
      fmt::format_to(out, "l{}: calc {}", i + 1, task.value);
    } else {
      fmt::format_to(out, "l{}: {} {}b {} {} tag {}", i + 1,
                     task.kind == TaskKind::kSend ? "send" : "recv", task.value,
                     task.kind == TaskKind::kSend ? "to" : "from", task.peer, task.comm);
    }
    if (task.resource != 0 && task.resource != kNoResource) {
      fmt::format_to(out, " cpu {}", task.resource);
    }
    if (task.nic != 0) {
      fmt::format_to(out, " nic {}", task.nic);
    }
    text->push_back('\n');
    for (; edge != edges.end() && std::max(edge->task, edge->on) == i; ++edge) {
      fmt::format_to(out, "l{} {} l{}\n", edge->task + 1, edge->begun ? "irequires" : "requires",
                     edge->on + 1);
    }
  }
  *text += "}\n";
}

}  // namespace prism::slicer
