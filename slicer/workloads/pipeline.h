// Pipelines of invented content: 1F1B and its interleaved form
// (slicer/synthesize/pass_schedule.h) around passes that the caller emits. Jobs with the content of
// a real model come from slicer/synthesize/synthesize.h.
//
// Messages travel on separate streams, one per direction, so a pass waits only for its input and
// the bubble is that of the closed form (Narayanan et al., SC21, section 2.2): (pp - 1) (tf + tb) /
// vpp for passes of equal length and free messages.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/workloads/program_builder.h"

namespace prism::slicer {

// Streams of a synthetic pipeline rank.
inline constexpr uint16_t kComputeStream = 0;
inline constexpr uint16_t kReceiveForwardStream = 1;
inline constexpr uint16_t kSendForwardStream = 2;
inline constexpr uint16_t kReceiveBackwardStream = 3;
inline constexpr uint16_t kSendBackwardStream = 4;
inline constexpr uint16_t kDataParallelStream = 5;
inline constexpr uint16_t kPipelineStreams = 6;

// What a pipeline rank does besides scheduling and messages.
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

}  // namespace prism::slicer
