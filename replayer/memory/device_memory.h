// Device memory of a job's ranks: what the caching allocator reserves, and what lives outside it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "replayer/memory/stage_memory.h"

namespace prism::replayer {

StageMemoryOptions MemoryOptionsOf(const graph::ClusterSpec& cluster);

// The CUDA context, and NCCL's buffers on a rank of that stage: for each communicator of more than
// one rank (tp, cp, dp with cp, ep and what replicates experts, pp, first and last stage, all) its
// set-up and one ring, and the connections to neighbouring stages and among experts. Formulas:
// graph/job/nccl_memory.h; trees and NVLS are left out.
int64_t OutsideAllocatorBytes(const graph::ClusterSpec& cluster,
                              const graph::JobSpec& job,
                              int32_t stage);

// Peaks of the rank that needs most device memory.
struct FullestRank {
  int32_t stage = 0;
  int64_t allocated_bytes = 0;  // of the caching allocator, peak
  int64_t reserved_bytes = 0;   // likewise
  int64_t device_bytes = 0;     // reserved, the context and NCCL's buffers
  int64_t host_bytes = 0;       // host memory of the rank that needs most of it

  bool operator==(const FullestRank&) const = default;
};

// `tiers`: host memory by stage; empty: nothing is offloaded. Considers the first and last stage
// and those between with more layers, or more expert layers, than all before: of stages with
// equally many layers, later ones hold fewer micro-batches. Fails as PredictStageMemory.
Result<FullestRank> FullestRankOf(const graph::ClusterSpec& cluster,
                                  const graph::JobSpec& job,
                                  const graph::TrainingStyle& style,
                                  const std::vector<HostTier>& tiers = {});

}  // namespace prism::replayer
