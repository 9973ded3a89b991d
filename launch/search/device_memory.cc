#include "launch/search/device_memory.h"

#include <algorithm>

#include "graph/job_groups.h"
#include "replayer/cost/collective_cost.h"

namespace prism::launch {
namespace {

// Of cuBLAS (MEMORY.md section 2 of the design).
constexpr int64_t kWorkspaceBeforeHopper = 8'519'680;
constexpr int64_t kWorkspaceFromHopper = 33'554'432;

// NCCL 2.28.9: src/init.cc computeBuffSizes, src/transport/p2p.cc, src/transport/net.cc.
constexpr int64_t kSimpleBytes = 4'194'304;
constexpr int64_t kLlBytes = 524'288;
constexpr int64_t kLl128Bytes = 4'915'200;
constexpr int64_t kControlBytes = 4096;
constexpr int64_t kNetworkSlots = 16;
constexpr int64_t kNetworkChunkBytes = 128 << 10;

class NcclBuffers {
 public:
  explicit NcclBuffers(const graph::ClusterSpec& cluster) {
    const graph::ParameterTable& table = cluster.parameters;
    granule_ = std::max<int64_t>(1, Whole(table, "nccl.granularity_bytes"));
    collective_ = Whole(table, "nccl.channels.collective");
    p2p_ = Whole(table, "nccl.channels.p2p");
    per_peer_ = Whole(table, "nccl.channels.p2p_per_peer");
    reads_ = cluster.gpu.compute_major == 8 && cluster.gpu.compute_minor == 0;
  }

  [[nodiscard]] int64_t Collectives(const replayer::CommTopology& topology) const {
    return topology.size < 2 ? 0 : Setup() + Ring(topology);
  }

  // Two directions to each of `peers` neighbours.
  [[nodiscard]] int64_t Neighbours(int64_t peers, bool same_node) const {
    if (same_node) {
      return peers * per_peer_ * Direct();
    }
    return peers == 0 ? 0 : 2 * Round(p2p_ * kNetworkSlots * kNetworkChunkBytes);
  }

 private:
  static int64_t Whole(const graph::ParameterTable& table, const char* key) {
    return static_cast<int64_t>(table.Value(key));
  }

  [[nodiscard]] int64_t Round(int64_t bytes) const {
    return (bytes + granule_ - 1) / granule_ * granule_;
  }

  [[nodiscard]] int64_t Setup() const { return (2 + 3 * std::max(collective_, p2p_)) * granule_; }

  // One connection, both ends of it on this rank.
  [[nodiscard]] int64_t Direct() const {
    const int64_t small = kControlBytes + kLlBytes + kLl128Bytes;
    return reads_ ? Round(kControlBytes + kSimpleBytes) + Round(small)
                  : Round(kControlBytes) + Round(small + kSimpleBytes);
  }

  [[nodiscard]] int64_t Ring(const replayer::CommTopology& topology) const {
    const int64_t local = std::max(1, topology.ranks_per_node);
    const int64_t ends = topology.nodes > 1 ? (collective_ + local - 1) / local : 0;
    const int64_t network =
        Round(kLl128Bytes + kSimpleBytes) + Round(kLlBytes + kLl128Bytes + kSimpleBytes);
    return ends * network + (collective_ - ends) * Direct();
  }

  int64_t granule_ = 1;
  int64_t collective_ = 0;
  int64_t p2p_ = 0;
  int64_t per_peer_ = 0;
  bool reads_ = false;
};

// Ranks `count` at a distance of `stride`, from a whole node on.
replayer::CommTopology Spread(int64_t count, int64_t stride, int64_t gpus_per_node) {
  replayer::CommTopology topology;
  topology.size = static_cast<int32_t>(count);
  const int64_t together = std::clamp<int64_t>(gpus_per_node / stride, 1, count);
  topology.ranks_per_node = static_cast<int32_t>(together);
  topology.nodes = static_cast<int32_t>((count + together - 1) / together);
  return topology;
}

}  // namespace

replayer::StageMemoryOptions MemoryOptionsOf(const graph::ClusterSpec& cluster) {
  constexpr int32_t kHopper = 9;
  replayer::StageMemoryOptions options;
  options.workspace_bytes =
      cluster.gpu.compute_major < kHopper ? kWorkspaceBeforeHopper : kWorkspaceFromHopper;
  options.pending = replayer::PendingModelOf(cluster.parameters);
  return options;
}

int64_t OutsideAllocatorBytes(const graph::ClusterSpec& cluster,
                              const graph::JobSpec& job,
                              int32_t stage) {
  const NcclBuffers nccl(cluster);
  const graph::ParallelSizes& sizes = job.parallel;
  const int64_t node = cluster.gpus_per_node;
  const int64_t tp = sizes.tp;
  const int64_t of_stage = tp * sizes.cp * sizes.dp;
  int64_t bytes = static_cast<int64_t>(cluster.parameters.Value("gpu.context_bytes"));
  bytes += nccl.Collectives(Spread(tp, 1, node));
  bytes += nccl.Collectives(Spread(sizes.cp, tp, node));
  bytes += nccl.Collectives(Spread(int64_t{sizes.cp} * sizes.dp, tp, node));
  bytes += nccl.Collectives(Spread(sizes.pp, of_stage, node));
  bytes += nccl.Collectives(Spread(sizes.world_size(), 1, node));
  const bool end = stage == 0 || stage == sizes.pp - 1;
  if (sizes.pp > 1) {
    const bool ties = end && job.model.tied_embeddings;
    bytes += ties ? nccl.Collectives(Spread(2, of_stage, node)) : 0;
    const bool ring = sizes.vpp > 1 && sizes.pp > 2;
    bytes += nccl.Neighbours(end && !ring ? 1 : 2, of_stage * 2 <= node);
  }
  return bytes;
}

}  // namespace prism::launch
