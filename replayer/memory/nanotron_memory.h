// Memory of a pipeline stage of nanotron: its first iterations, allocation by allocation, in the
// simulated caching allocator.
//
// Reserved memory is more than what is allocated at any one time, and follows from the order:
// Adam's moments, which the first step places into free blocks of activations, flat copies of
// parameters that ZeRO gathers, and inputs of reduce-scatters, which cannot be used again before
// the device has passed them (nanotron_passes.h).
#pragma once

#include <cstdint>

#include "graph/base/status.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "replayer/memory/stage_memory.h"

namespace prism::replayer {

// peak_reserved is that of the third iteration's optimizer step: nanotron resets the peaks before
// and after the passes of each of its first iterations, and its benchmark reads them at the end of
// the third. It is less than what was reserved before if the device became full in between.
// Fails for offload, recomputation and tensor parallelism without sequence parallelism.
Result<StageMemory> PredictNanotronMemory(const graph::JobSpec& job,
                                          const graph::TrainingStyle& style,
                                          int32_t stage,
                                          const StageMemoryOptions& options);

}  // namespace prism::replayer
