#include "launch/emulate/sandbox/device_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "graph/base/check.h"
#include "replayer/cost/parameters.h"
#include "replayer/perturb/rank_effects.h"
#include "slicer/record/host_meter.h"

namespace prism::launch {
namespace {

int64_t WholeValue(const graph::ClusterSpec& cluster, std::string_view key) {
  return std::llround(cluster.parameters.Value(key));
}

channel::DeviceProfile MakeProfile(const graph::ClusterSpec& cluster, const graph::JobSpec& job) {
  const graph::GpuSpec& gpu = cluster.gpu;
  channel::DeviceProfile profile = {};
  const size_t length = std::min(gpu.name.size(), sizeof(profile.name) - 1);
  std::memcpy(profile.name, gpu.name.data(), length);
  profile.compute_major = gpu.compute_major;
  profile.compute_minor = gpu.compute_minor;
  profile.sm_count = gpu.sm_count;
  profile.device_count =
      static_cast<int32_t>(std::min<int64_t>(cluster.gpus_per_node, job.parallel.world_size()));
  profile.memory_bytes = gpu.memory_bytes;
  profile.context_bytes = WholeValue(cluster, "gpu.context_bytes");
  profile.l2_bytes = gpu.l2_bytes;
  profile.shared_memory_per_sm = gpu.shared_memory_per_sm;
  profile.shared_memory_per_block_optin = gpu.shared_memory_per_block_optin;
  profile.segments_ascending = gpu.segments_ascending ? 1 : 0;
  return profile;
}

// As the replayer charges them, so that the program's clock and the replay agree.
void FillHostCosts(const graph::ClusterSpec& cluster, channel::Config* config) {
  for (size_t kind = 0; kind < channel::kHostCostKinds; ++kind) {
    if (const auto op = slicer::ChargedOp(static_cast<channel::RecordKind>(kind))) {
      config->host_cost_ns[kind] = WholeValue(cluster, replayer::HostCostKey(*op));
    }
  }
}

}  // namespace

channel::Config MakeDeviceConfig(const graph::ClusterSpec& cluster,
                                 const graph::JobSpec& job,
                                 Rank rank,
                                 const std::vector<Rank>& present) {
  PRISM_CHECK_LE(present.size(), static_cast<size_t>(channel::kMaxSandboxRanks));
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = channel::Mode::kRecord;
  config.rank = static_cast<int32_t>(rank.value());
  config.world_size = static_cast<int32_t>(job.parallel.world_size());
  config.seed = job.seed;
  config.device = MakeProfile(cluster, job);
  config.nccl.collective_channels =
      static_cast<int32_t>(WholeValue(cluster, "nccl.channels.collective"));
  config.nccl.p2p_channels = static_cast<int32_t>(WholeValue(cluster, "nccl.channels.p2p"));
  config.nccl.p2p_channels_per_peer =
      static_cast<int32_t>(WholeValue(cluster, "nccl.channels.p2p_per_peer"));
  config.nccl.nvls_channels = static_cast<int32_t>(WholeValue(cluster, "nccl.channels.nvls"));
  config.nccl.granularity_bytes = WholeValue(cluster, "nccl.granularity_bytes");
  const int64_t nvlink = WholeValue(cluster, "net.nvlink_bytes_per_s");
  config.nccl.local_bytes_per_s = nvlink > 0 ? nvlink : WholeValue(cluster, "net.pcie_bytes_per_s");
  config.nccl.network_bytes_per_s = WholeValue(cluster, "net.nic_bytes_per_s");
  FillHostCosts(cluster, &config);
  config.sandbox_rank_count = static_cast<int32_t>(present.size());
  for (size_t i = 0; i < present.size(); ++i) {
    config.sandbox_ranks[i] = static_cast<int32_t>(present[i].value());
  }
  return config;
}

void SlowHost(double factor, channel::Config* config) {
  for (auto& cost : config->host_cost_ns) {
    cost = replayer::SlowedHostCost(cost, factor);
  }
}

}  // namespace prism::launch
