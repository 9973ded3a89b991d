// Offload to host memory in a synthesised job: adds the copies that an edit of its graph would add
// (offload_edit.cc), without building that graph.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/offload.h"
#include "graph/program/job_program.h"

namespace prism::slicer {

struct JobOffload {
  graph::Offload what = graph::Offload::kNone;
  int64_t prefetch = 1;
  int64_t layer_bytes = 0;  // activations of a layer and micro-batch
};

// Adds the copies. `job` must mark its layers (Markers::kAll); the markers are removed.
// kInvalidArgument for a schedule that needs activations twice.
Status OffloadJob(const JobOffload& offload, graph::JobProgram* job);

// By stage, of its first rank: the most bytes of optimizer states that an update has on the device
// at one time.
std::vector<int64_t> StatesAtOnce(const graph::JobProgram& job, int64_t prefetch);

}  // namespace prism::slicer
