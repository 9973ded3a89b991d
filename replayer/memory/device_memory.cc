#include "replayer/memory/device_memory.h"

#include <algorithm>

#include "graph/base/divide.h"
#include "graph/job/blas_memory.h"
#include "graph/job/nccl_memory.h"
#include "replayer/memory/model_states.h"

namespace prism::replayer {
namespace {

graph::NcclMemoryModel NcclOf(const graph::ClusterSpec& cluster) {
  const auto whole = [&](const char* key) {
    return static_cast<int64_t>(cluster.parameters.Value(key));
  };
  return {.collective_channels = whole("nccl.channels.collective"),
          .p2p_channels = whole("nccl.channels.p2p"),
          .p2p_channels_per_peer = whole("nccl.channels.p2p_per_peer"),
          .granularity_bytes = whole("nccl.granularity_bytes"),
          .reads_peers = cluster.gpu.compute_major == 8 && cluster.gpu.compute_minor == 0};
}

// A communicator with one ring.
int64_t Collectives(const graph::NcclMemoryModel& nccl, const graph::CommunicatorShape& shape) {
  return shape.size < 2 ? 0 : nccl.SetupBytes(shape) + nccl.RingBytes(shape);
}

// Two directions to each of `peers` neighbours.
int64_t Neighbours(const graph::NcclMemoryModel& nccl, int64_t peers, bool same_node) {
  if (same_node) {
    return peers * (nccl.PeerBytes(true) + nccl.PeerBytes(false));
  }
  return peers == 0 ? 0 : 2 * nccl.NetworkPeerBytes();
}

// `count` ranks `stride` apart, starting at a node boundary.
graph::CommunicatorShape Spread(int64_t count, int64_t stride, int64_t gpus_per_node) {
  const int64_t together = std::clamp<int64_t>(gpus_per_node / stride, 1, count);
  return {.size = static_cast<int32_t>(count),
          .local_ranks = static_cast<int32_t>(together),
          .node_count = static_cast<int32_t>(DivideUp(count, together))};
}

// A communicator whose members all send to one another.
int64_t AllToAll(const graph::NcclMemoryModel& nccl, const graph::CommunicatorShape& shape) {
  if (shape.size < 2) {
    return 0;
  }
  return Neighbours(nccl, shape.local_ranks - 1, true) +
         Neighbours(nccl, shape.size - shape.local_ranks, false);
}

// Memory of the communicators over which experts are spread, and of those that hold the same
// experts.
int64_t OfExperts(const graph::NcclMemoryModel& nccl,
                  const graph::JobSpec& job,
                  int64_t gpus_per_node) {
  const graph::ParallelSizes& sizes = job.parallel;
  if (job.model.moe.experts == 0) {
    return 0;
  }
  const int64_t spread = int64_t{sizes.etp} * sizes.ep;
  const int64_t of_stage = int64_t{sizes.tp} * sizes.cp * sizes.dp;
  const graph::CommunicatorShape experts = Spread(sizes.ep, sizes.etp, gpus_per_node);
  return Collectives(nccl, experts) + AllToAll(nccl, experts) +
         Collectives(nccl, Spread(of_stage / spread, spread, gpus_per_node));
}

std::vector<int32_t> FullestStages(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  const int32_t last = job.parallel.pp - 1;
  std::vector<int32_t> stages = {0};
  int64_t most = 0;
  int64_t most_with_experts = 0;
  for (int32_t stage = 1; stage < last; ++stage) {
    int64_t layers = 0;
    int64_t with_experts = 0;
    for (const graph::LayerRange& range : LayersOfChunks(job, style, stage)) {
      layers += range.end - range.begin;
      with_experts +=
          std::max<int64_t>(0, range.end - std::max(range.begin, job.model.moe.dense_layers));
    }
    if (layers > most || with_experts > most_with_experts) {
      stages.push_back(stage);
    }
    most = std::max(most, layers);
    most_with_experts = std::max(most_with_experts, with_experts);
  }
  if (last > 0) {
    stages.push_back(last);
  }
  return stages;
}

}  // namespace

StageMemoryOptions MemoryOptionsOf(const graph::ClusterSpec& cluster) {
  StageMemoryOptions options;
  options.workspace_bytes = graph::BlasWorkspaceBytes(cluster.gpu.compute_major);
  options.pending = PendingModelOf(cluster.parameters);
  return options;
}

int64_t OutsideAllocatorBytes(const graph::ClusterSpec& cluster,
                              const graph::JobSpec& job,
                              int32_t stage) {
  const graph::NcclMemoryModel nccl = NcclOf(cluster);
  const graph::ParallelSizes& sizes = job.parallel;
  const int64_t node = cluster.gpus_per_node;
  const int64_t tp = sizes.tp;
  const int64_t of_stage = tp * sizes.cp * sizes.dp;
  int64_t bytes = static_cast<int64_t>(cluster.parameters.Value("gpu.context_bytes"));
  bytes += Collectives(nccl, Spread(tp, 1, node));
  bytes += Collectives(nccl, Spread(sizes.cp, tp, node));
  bytes += Collectives(nccl, Spread(int64_t{sizes.cp} * sizes.dp, tp, node));
  bytes += Collectives(nccl, Spread(sizes.pp, of_stage, node));
  bytes += Collectives(nccl, Spread(sizes.world_size(), 1, node));
  bytes += OfExperts(nccl, job, node);
  const bool end = stage == 0 || stage == sizes.pp - 1;
  if (sizes.pp > 1) {
    const bool ties = end && job.model.tied_embeddings;
    bytes += ties ? Collectives(nccl, Spread(2, of_stage, node)) : 0;
    const bool ring = sizes.vpp > 1 && sizes.pp > 2;
    bytes += Neighbours(nccl, end && !ring ? 1 : 2, of_stage * 2 <= node);
  }
  return bytes;
}

Result<FullestRank> FullestRankOf(const graph::ClusterSpec& cluster,
                                  const graph::JobSpec& job,
                                  const graph::TrainingStyle& style,
                                  const std::vector<HostTier>& tiers) {
  StageMemoryOptions options = MemoryOptionsOf(cluster);
  FullestRank fullest;
  for (const int32_t stage : FullestStages(job, style)) {
    options.host = tiers.empty() ? HostTier{} : tiers[static_cast<size_t>(stage)];
    PRISM_ASSIGN_OR_RETURN(const StageMemory memory,
                           PredictStageMemory(job, style, stage, options));
    const int64_t device = memory.peak_reserved + OutsideAllocatorBytes(cluster, job, stage);
    const int64_t host = std::max(fullest.host_bytes, memory.host_bytes);
    if (stage == 0 || device > fullest.device_bytes) {
      fullest = {stage, memory.peak_allocated, memory.peak_reserved, device};
    }
    fullest.host_bytes = host;
  }
  return fullest;
}

}  // namespace prism::replayer
