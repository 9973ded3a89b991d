#include "slicer/export/goal/goal_export.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <vector>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "slicer/export/goal/goal_writer.h"
#include "slicer/import/goal/goal_binary.h"
#include "slicer/import/goal/goal_limits.h"
#include "slicer/tasks/expand_collectives.h"
#include "slicer/tasks/raise.h"

namespace prism::slicer {
namespace {

constexpr std::string_view kTagPrefix = "tag ";

// The number in the name of a communicator that came from GOAL.
std::optional<uint32_t> TagOf(const std::string& name) {
  uint32_t tag = 0;
  const bool is_tag = name.starts_with(kTagPrefix) &&
                      ParseNumber(std::string_view(name).substr(kTagPrefix.size()), &tag) &&
                      tag <= kMaxGoalTag;
  return is_tag ? std::optional(tag) : std::nullopt;
}

// By communicator: the number in its name, else an unused one.
std::vector<uint32_t> NumberTags(const graph::Graph& graph) {
  const graph::CommunicatorTable& table = graph.communicators;
  std::vector<std::optional<uint32_t>> named(table.size());
  std::set<uint32_t> taken;
  for (uint32_t comm = 0; comm < table.size(); ++comm) {
    named[comm] = TagOf(graph.strings[table.name[comm]]);
    if (named[comm].has_value()) {
      taken.insert(*named[comm]);
    }
  }
  // Above all numbers in names, if the highest one leaves room.
  const bool room = taken.empty() || uint64_t{*taken.rbegin()} + table.size() <= kMaxGoalTag;
  uint32_t next = taken.empty() || !room ? 0 : *taken.rbegin() + 1;
  std::vector<uint32_t> tags(table.size());
  for (uint32_t comm = 0; comm < table.size(); ++comm) {
    while (!named[comm].has_value() && taken.contains(next)) {
      ++next;
    }
    tags[comm] = named[comm].has_value() ? *named[comm] : next++;
  }
  return tags;
}

// Translates what GOAL expresses differently, or not at all.
class GoalTranslation {
 public:
  explicit GoalTranslation(const graph::Graph& graph)
      : graph_(graph),
        tags_(NumberTags(graph)),
        from_goal_(!graph.signatures.empty() &&
                   graph.string(graph.signatures.front().name) == kGoalCalc) {}

  Result<TaskGraph> Rank(prism::Rank rank, Notes* notes) const {
    PRISM_ASSIGN_OR_RETURN(const TaskGraph raised, RaiseRank(graph_, rank, notes));
    TaskGraph tasks = ExpandCollectives(graph_, raised, notes);
    int64_t kernels = 0;
    int64_t empty = 0;
    int64_t shared_cpus = 0;
    for (Task& task : tasks.tasks) {
      kernels += IsKernel(rank, task) ? 1 : 0;
      if (from_goal_) {
        SetPlace(&task);
      }
      shared_cpus += task.resource > kMaxGoalCpu ? 1 : 0;
      task.resource = static_cast<uint16_t>(task.resource % (kMaxGoalCpu + 1));
      if (task.kind == TaskKind::kCompute) {
        continue;
      }
      task.comm = tags_[task.comm];
      empty += task.value == 0 ? 1 : 0;
      task.value = std::max<int64_t>(task.value, 1);
    }
    notes->Add("kernels keep their time but not their name and shape", kernels);
    notes->Add("messages of zero bytes are written with one", empty);
    notes->Add("tasks share one of 256 cpus with those of another stream", shared_cpus);
    return tasks;
  }

 private:
  // Tasks without a marker were on cpu 0.
  void SetPlace(Task* task) const {
    unsigned cpu = 0;
    unsigned nic = 0;
    std::sscanf(graph_.strings[task->place].c_str(), "cpu %u nic %u", &cpu, &nic);
    task->resource = static_cast<uint16_t>(cpu);
    task->nic = static_cast<uint8_t>(nic);
  }

  [[nodiscard]] bool IsKernel(prism::Rank rank, const Task& task) const {
    const graph::Program& program = graph_.role_of(rank).program;
    return task.kind == TaskKind::kCompute && task.name != kHostTask &&
           program.kind[task.name] == graph::OpKind::kKernel &&
           graph_.string(graph_.signatures[program.signature[task.name]].name) != kGoalCalc;
  }

  const graph::Graph& graph_;
  std::vector<uint32_t> tags_;
  bool from_goal_;
};

Status WriteText(const graph::Graph& graph, const GoalSink& sink, ExportResult* result) {
  const GoalTranslation translation(graph);
  std::string text = GoalTextHead(graph.ranks.size());
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    PRISM_ASSIGN_OR_RETURN(const TaskGraph tasks, translation.Rank(Rank(rank), &result->notes));
    result->tasks += static_cast<int64_t>(tasks.tasks.size());
    AppendGoalText(tasks, &text);
    result->bytes += static_cast<int64_t>(text.size());
    PRISM_RETURN_IF_ERROR(sink(text));
    text.clear();
  }
  return OkStatus();
}

// The head names the size of every part, so that parts are made twice rather than kept.
Status WriteBinary(const graph::Graph& graph, const GoalSink& sink, ExportResult* result) {
  const GoalTranslation translation(graph);
  GoalBinaryHead head;
  Notes ignored;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    PRISM_ASSIGN_OR_RETURN(const TaskGraph tasks, translation.Rank(Rank(rank), &ignored));
    head.part_bytes.push_back(GoalBinaryPart(tasks).size());
    for (const Task& task : tasks.tasks) {
      head.highest_cpu = std::max(head.highest_cpu, static_cast<uint8_t>(task.resource));
      head.highest_nic = std::max(head.highest_nic, task.nic);
    }
  }
  const auto write = [&](const std::string& bytes) {
    result->bytes += static_cast<int64_t>(bytes.size());
    return sink(bytes);
  };
  PRISM_RETURN_IF_ERROR(write(GoalBinaryHeadBytes(head)));
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    PRISM_ASSIGN_OR_RETURN(const TaskGraph tasks, translation.Rank(Rank(rank), &result->notes));
    result->tasks += static_cast<int64_t>(tasks.tasks.size());
    PRISM_RETURN_IF_ERROR(write(GoalBinaryPart(tasks)));
  }
  return OkStatus();
}

}  // namespace

Result<ExportResult> WriteGoal(const graph::Graph& graph, GoalForm form, const GoalSink& sink) {
  ExportResult result;
  PRISM_RETURN_IF_ERROR(form == GoalForm::kText ? WriteText(graph, sink, &result)
                                                : WriteBinary(graph, sink, &result));
  return result;
}

Result<ExportResult> ExportGoal(const graph::Graph& graph, const std::string& path, GoalForm form) {
  PRISM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  PRISM_ASSIGN_OR_RETURN(
      ExportResult result,
      WriteGoal(graph, form, [&file](std::string_view bytes) { return file.Append(bytes); }));
  PRISM_RETURN_IF_ERROR(file.Commit());
  result.files = {path};
  return result;
}

}  // namespace prism::slicer
