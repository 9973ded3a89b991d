// Collectives as messages, for formats that have only messages.
//
// The algorithms are the textbook ones (n members, b bytes):
//
//   all_reduce       ring: n - 1 steps that reduce and n - 1 that gather, b/n each
//   all_gather,
//   reduce_scatter   ring: n - 1 steps of b/n
//   broadcast,
//   reduce           a chain of neighbours from, or to, the root, whole
//   all_to_all       a message of b/n to and from everybody, side by side
//   gather, scatter  a message of b/n between the root and everybody else
//
// b/n is rounded up. Each step of a ring or chain begins when the one before has arrived.
#pragma once

#include "graph/graph.h"
#include "slicer/tasks/notes.h"
#include "slicer/tasks/task_graph.h"

namespace prism::slicer {

// Task::comm are ids of `graph`, as slicer/tasks/raise.h gives them. A collective of one member
// becomes a task of zero duration.
TaskGraph ExpandCollectives(const graph::Graph& graph, const TaskGraph& tasks, Notes* notes);

}  // namespace prism::slicer
