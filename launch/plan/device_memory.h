// Device memory of a rank outside its caching allocator, and how the allocator is set up.
#pragma once

#include <cstdint>

#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "replayer/memory/stage_memory.h"

namespace prism::launch {

replayer::StageMemoryOptions MemoryOptionsOf(const graph::ClusterSpec& cluster);

// The CUDA context, and NCCL's buffers on a rank of that stage: for each communicator of more than
// one rank (tp, cp, dp with cp, ep and what replicates experts, pp, first and last stage, all) its
// set-up and one ring, and the connections to neighbouring stages and among experts. Formulas:
// graph/job/nccl_memory.h; trees and NVLS are left out.
int64_t OutsideAllocatorBytes(const graph::ClusterSpec& cluster,
                              const graph::JobSpec& job,
                              int32_t stage);

}  // namespace prism::launch
