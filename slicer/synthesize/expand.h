// A JobProgram → the graph of all its ranks, op by op: one role per pipeline stage, numbered as
// slicer/record/op_stream.h numbers what a rank records (streams, communicators and peers by first
// use), so that a synthesised graph and a recorded one can be compared.
#pragma once

#include "graph/base/status.h"
#include "graph/graph.h"
#include "graph/job/cluster.h"
#include "graph/program/job_program.h"

namespace prism::slicer {

// Memory of the roles is empty. Does not validate: the caller does.
Result<graph::Graph> Expand(const graph::JobProgram& job, const graph::ClusterSpec& cluster);

}  // namespace prism::slicer
