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

// Optimizer states that move, of the first rank of a stage.
struct MovedStates {
  int64_t all_bytes = 0;
  int64_t at_once_bytes = 0;  // on the device at a time, at most
};

// By stage.
std::vector<MovedStates> MovedStatesOf(const graph::JobProgram& job, int64_t prefetch);

}  // namespace prism::slicer
