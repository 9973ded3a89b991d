// Flat gradient buffers of a model chunk, divided into buckets (graph/job/flat_buckets.h):
// Megatron's, and for the built-in workload one buffer per kind of parameter
// (launch/trainer/grad_buffer.h).
#pragma once

#include <cstdint>
#include <vector>

#include "slicer/synthesize/model_chunks.h"

namespace prism::slicer {

struct GradBucket {
  int64_t elements = 0;    // padding included
  int32_t expected = 0;    // contributions of one micro-batch
  uint32_t reduction = 0;  // event slots: end of its reduction,
  uint32_t gather = 0;     // of the gathering of its parameters
};

struct GradBuffer {
  graph::GroupAxis axis = graph::GroupAxis::kData;
  int32_t group_size = 1;
  bool tied = false;
  bool sequence_parallel = false;
  bool decay = true;
  bool expert = false;
  int64_t elements = 0;
  std::vector<GradBucket> buckets;
};

// Where the gradient of a parameter of a unit goes.
struct GradPlace {
  size_t buffer = 0;
  size_t bucket = 0;
};

struct ChunkGradients {
  std::vector<GradBuffer> buffers;
  std::vector<std::vector<GradPlace>> places;  // by unit and parameter
};

// Parameters in the order of the backward pass: the last declared first.
ChunkGradients LayOutGradients(const RankShape& rank, const ModelChunk& chunk);

}  // namespace prism::slicer
