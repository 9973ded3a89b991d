// Pipelines of invented content, for benches and closed forms in tests: 1F1B and its interleaved
// form (pass_schedule.h) around passes that the caller emits. Jobs with the content of a real model
// come from synthesize.h.
//
// Messages travel on streams of their own, one a direction, so a pass waits for its input only and
// the bubble is that of the closed form (Narayanan et al., SC21, section 2.2):
// (pp - 1) (tf + tb) / vpp for passes of equal length and free messages.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/program_builder.h"

namespace prism::slicer {

// Streams of a synthetic pipeline rank.
inline constexpr uint16_t kComputeStream = 0;
inline constexpr uint16_t kReceiveForwardStream = 1;
inline constexpr uint16_t kSendForwardStream = 2;
inline constexpr uint16_t kReceiveBackwardStream = 3;
inline constexpr uint16_t kSendBackwardStream = 4;
inline constexpr uint16_t kDataParallelStream = 5;
inline constexpr uint16_t kPipelineStreams = 6;

// What a pipeline rank does beside scheduling and messages.
struct PipelineBody {
  // Emits one pass on kComputeStream.
  std::function<void(ProgramBuilder&, Rank, const StageStep&)> pass;
  // Emits what follows the last pass (gradient reduction, optimizer); may be empty.
  std::function<void(ProgramBuilder&, Rank)> finish;
  int64_t message_bytes = 0;  // of one activation or its gradient
};

// The graph of `job` (its layout and microbatches()) with that body. Fails on a layout that has no
// such schedule.
Result<graph::Graph> MakePipeline(const graph::JobSpec& job, const PipelineBody& body);

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

}  // namespace prism::slicer
