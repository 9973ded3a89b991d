// A pipeline whose passes take the same time on every stage, for closed forms.
#pragma once

#include <cstdint>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"

namespace prism::testing {

// Every pass takes the same time on every stage.
struct UniformPipeline {
  graph::ParallelSizes parallel;
  int64_t microbatches = 1;
  DurationNs forward_ns = 0;     // of one pass of one chunk
  DurationNs backward_ns = 0;    // likewise
  int32_t layers_per_chunk = 1;  // kernels that a pass is divided into
  int64_t tensor_bytes = 0;      // tp all_reduce after each layer; 0: none
  int64_t gradient_bytes = 0;    // dp all_reduce after the last pass; 0: none
  int64_t message_bytes = 1 << 20;
};

Result<graph::Graph> MakeUniformPipeline(const UniformPipeline& options);

}  // namespace prism::testing
