// A rank's program → tasks: the inverse of slicer/tasks/lower.h, for formats without streams and
// hosts.
//
// Kernels, copies, messages and collectives become tasks; each waits for the one before on its
// stream, and as events and host waits require. A host wait for several streams becomes a task of
// zero duration. Host time costs nothing here, since task formats do not model the issuing of ops;
// the notes count that.
#pragma once

#include <cstdint>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/tasks/notes.h"
#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

// Task::name of a task that does not represent an op of the program.
inline constexpr uint32_t kHostTask = 0xFFFFFFFFU;

// Task::name is the op, kHostTask for tasks of the host; Task::comm the communicator's id in the
// graph, Task::peer a rank, Task::place the innermost marker, Task::resource the stream (the host:
// one above all streams). Modelled durations must have been fixed before (graph::kDurationFixed),
// else kInvalidArgument, naming the op.
Result<TaskGraph> RaiseRank(const graph::Graph& graph, Rank rank, Notes* notes);

}  // namespace prism::slicer
