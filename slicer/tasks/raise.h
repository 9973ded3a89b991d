// A rank's program → tasks: the way back from slicer/tasks/lower.h, for formats that know no
// streams and no host.
//
// Kernels, copies, messages and collectives become tasks; each waits for the one before on its
// stream and for what events and waits of the host say. A wait of the host for several streams
// becomes a task of no time. What a host thread does costs nothing here: formats of tasks know no
// issue of ops, which the notes count.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/tasks/notes.h"
#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

// Task::name of what stands for no op of the program.
inline constexpr uint32_t kHostTask = 0xFFFFFFFFU;

// Task::name is the op, kHostTask for tasks of the host; Task::comm the communicator's id in the
// graph, Task::peer a rank, Task::resource the stream (the host: one above all streams). Durations
// that are modelled must have been fixed before (graph::kDurationFixed): kInvalidArgument, naming
// the op.
Result<TaskGraph> RaiseRank(const graph::Graph& graph, Rank rank, Notes* notes);

}  // namespace prism::slicer
