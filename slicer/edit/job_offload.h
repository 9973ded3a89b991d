// Offload to host memory in a synthesised job: the copies that the edit of its graph makes
// (offload_edit.cc), without that graph.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/job_program.h"
#include "graph/offload.h"

namespace prism::slicer {

struct JobOffload {
  graph::Offload what = graph::Offload::kNone;
  int64_t prefetch = 1;
  int64_t layer_bytes = 0;  // activations of a layer and micro-batch
};

// Adds the copies. `job` marks its layers (Markers::kAll); its markers go. kInvalidArgument for a
// schedule that needs activations twice.
Status OffloadJob(const JobOffload& offload, graph::JobProgram* job);

// Bytes of optimizer states that an update has on the device at a time, at most: by stage, of its
// first rank.
std::vector<int64_t> StatesAtOnce(const graph::JobProgram& job, int64_t prefetch);

}  // namespace prism::slicer
