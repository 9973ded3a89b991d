// What one rank does as tasks and what each waits for: the common ground of replay formats. GOAL,
// Chakra and workload files are graphs of tasks; a program (graph/program/op.h) is a list of ops on
// streams. slicer/tasks/lower.h converts tasks to a program, slicer/tasks/raise.h converts back.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/program/op.h"

namespace prism::slicer {

enum class TaskKind : uint8_t { kCompute, kSend, kReceive, kCollective };

// Compute tasks of one resource run one at a time, in order; those of kNoResource run whenever they
// can.
inline constexpr uint16_t kNoResource = 0xFFFFU;

struct Task {
  TaskKind kind = TaskKind::kCompute;
  uint16_t resource = kNoResource;  // a GOAL cpu, a stream; for messages informational only
  uint32_t name = 0;                // kCompute: id that the importer or exporter gives a meaning
  uint32_t comm = 0;                // messages, collectives: communicator id, as the importer
                                    // defines
  uint32_t peer = 0;                // messages: global rank
  uint32_t shape = 0;               // kCollective: index into TaskGraph::collectives
  uint32_t line = 0;                // of the file, for error messages; 0: unknown
  uint32_t place = 0;               // string id of a marker around it; 0: none
  uint8_t nic = 0;                  // of a message in GOAL
  int64_t value = 0;                // kCompute: ns; messages: bytes

  bool operator==(const Task&) const = default;
};

// `task` waits until `on` has ended, or has begun.
struct TaskEdge {
  uint32_t task = 0;
  uint32_t on = 0;
  bool begun = false;

  auto operator<=>(const TaskEdge&) const = default;
};

// Messages between two ranks on one communicator are paired in the order of the tasks.
struct TaskGraph {
  // Whether it runs after the task before it on its resource.
  [[nodiscard]] bool IsSerial(uint32_t task) const {
    return (tasks[task].kind == TaskKind::kCompute || tasks[task].kind == TaskKind::kCollective) &&
           tasks[task].resource != kNoResource;
  }

  Rank rank;
  std::vector<Task> tasks;
  std::vector<TaskEdge> edges;
  std::vector<graph::CollectiveShape> collectives;  // distinct

  void Clear() {
    tasks.clear();
    edges.clear();
    collectives.clear();
  }

  uint32_t Add(const Task& task) {
    tasks.push_back(task);
    return static_cast<uint32_t>(tasks.size() - 1);
  }

  bool operator==(const TaskGraph&) const = default;
};

// The edges of a task graph by waiting task: those of t at edges[begin[t] .. begin[t + 1]), in the
// order in which they were given.
struct TaskEdgeIndex {
  std::vector<uint32_t> begin;
  std::vector<TaskEdge> edges;

  void Build(const TaskGraph& tasks);
};

// Every task after what it waits for, otherwise in the order given. kBadFile, naming a line, when
// tasks wait in a circle.
Status OrderTasks(const TaskGraph& tasks, const TaskEdgeIndex& index, std::vector<uint32_t>* order);

}  // namespace prism::slicer
