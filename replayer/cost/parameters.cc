#include "replayer/cost/parameters.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "replayer/cost/measured_kernels.h"

namespace prism::replayer {
namespace {

constexpr auto kKeys = std::to_array<ParameterKey>({
    {"gpu.attention_backward_efficiency", "ratio", "flash v2 backward likewise"},
    {"gpu.attention_cudnn_factor", "ratio", "rate of cuDNN or flash v3 attention over flash v2"},
    {"gpu.attention_efficiency", "ratio",
     "flash v2 forward, long and wide: achieved over dense peak"},
    {"gpu.attention_half_head_dim", "element",
     "head dimension at which half of that rate is reached"},
    {"gpu.attention_half_seq", "element", "sequence length at which half of that rate is reached"},
    {"gpu.context_bytes", "byte", "device memory of a CUDA context with the framework's kernels"},
    {"gpu.copy_bytes_per_s", "byte/s", "copies between host and device"},
    {"gpu.hbm_bytes_per_s", "byte/s", "device memory, nominal"},
    {"gpu.hbm_efficiency", "ratio", "device memory: achieved over nominal at large size"},
    {"gpu.kernel_floor_ns", "ns", "shortest time a kernel occupies its stream"},
    {"gpu.kernel_gap_ns", "ns", "between two kernels of a stream that is full"},
    {"gpu.matmul_efficiency", "ratio", "large matrix products: achieved over dense peak"},
    {"gpu.matmul_fp32_efficiency", "ratio", "large fp32 products outside of matrix units likewise"},
    {"gpu.matmul_fp4_efficiency", "ratio", "large fp4 matrix products likewise"},
    {"gpu.matmul_fp8_efficiency", "ratio", "large fp8 matrix products likewise"},
    {"gpu.matmul_half_k", "element", "inner length at which half of that efficiency is reached"},
    {"gpu.matmul_misaligned_factor", "ratio", "batched products off 16-byte rows: times as long"},
    {"gpu.matmul_most_splits", "1", "parts that an inner dimension is cut into at most (split-K)"},
    {"gpu.matmul_tile_m", "element", "rows of the tile that one SM works on"},
    {"gpu.matmul_tile_n", "element", "columns of that tile"},
    {"gpu.peak_bf16_flops", "flop/s", "dense matrix peak, bf16 and fp16"},
    {"gpu.peak_fp32_flops", "flop/s", "fp32 peak outside of matrix units"},
    {"gpu.peak_fp4_flops", "flop/s", "dense matrix peak, fp4; 0 where there is none"},
    {"gpu.peak_fp8_flops", "flop/s", "dense matrix peak, fp8; 0 where there is none"},
    {"gpu.peak_tf32_flops", "flop/s", "dense matrix peak, tf32"},
    {"gpu.sustained_clock", "ratio",
     "matrix units: rate at this site over that of the GPU's profile"},
    {"host.collective_nodes_factor", "ratio",
     "what a rank adds to a call (host.collective_rank_ns) with each doubling of its group's "
     "nodes"},
    {"host.collective_ns", "ns", "host thread: one collective call through the framework"},
    {"host.collective_rank_ns", "ns",
     "host thread: more a collective call and tensor-parallel rank in a pipeline over nodes"},
    {"host.device_sync_ns", "ns", "host thread: cudaDeviceSynchronize beyond its wait"},
    {"host.event_record_ns", "ns", "host thread: cudaEventRecord"},
    {"host.event_sync_ns", "ns", "host thread: cudaEventSynchronize beyond its wait"},
    {"host.event_wait_ns", "ns", "host thread: cudaStreamWaitEvent"},
    {"host.expert_ns", "ns", "host thread: likewise, for each expert that the rank holds"},
    {"host.iteration_ns", "ns", "host thread: once an iteration, outside of ops: data, logging"},
    {"host.kernel_ns", "ns", "host thread: one kernel launch with its framework op"},
    {"host.memcpy_ns", "ns", "host thread: one asynchronous copy"},
    {"host.memset_ns", "ns", "host thread: one asynchronous memset"},
    {"host.moe_overlap_factor", "ratio",
     "host time of a pass of experts beside that of another micro-batch, over one by itself"},
    {"host.moe_pass_ns", "ns", "host thread: a pass of a mixture of experts, beyond its ops"},
    {"host.moe_router_share", "ratio", "share of host.moe_pass_ns before experts are called"},
    {"host.peer_group_ns", "ns", "host thread: one group of sends and receives"},
    {"host.poll_ns", "ns", "host thread: an event query that answers \"not ready\""},
    {"host.segment_alloc_ns", "ns", "host thread: one cudaMalloc"},
    {"host.segment_free_ns", "ns", "host thread: one cudaFree"},
    {"host.stream_sync_ns", "ns", "host thread: cudaStreamSynchronize beyond its wait"},
    {"memory.lag_share", "ratio",
     "a layer's products over its host time, both passes, from which on the device lags"},
    {"memory.network_groups_bytes", "byte",
     "device memory that groups over several nodes take beyond NCCL's buffers for one ring each"},
    {"memory.pending_collectives", "1",
     "collectives issued and not passed where hosts run ahead of their device"},
    {"nccl.channels.collective", "1", "channels of a communicator's rings and trees"},
    {"nccl.channels.nvls", "1", "channels of NVLS; 0 where there is none"},
    {"nccl.channels.p2p", "1", "channels of send and receive"},
    {"nccl.channels.p2p_per_peer", "1", "of these, used for one peer"},
    {"nccl.granularity_bytes", "byte", "every device allocation of NCCL is rounded up to this"},
    {"nccl.launch_ns", "ns", "fixed time of a collective beyond the latencies of NCCL's tuner"},
    {"nccl.nvls_efficiency", "ratio", "NVLink under NVLS: achieved over nominal; 0 without NVLS"},
    {"nccl.ramp", "ratio", "latency of a message far above 7 MiB over a small one's, less one"},
    {"nccl.release", "1", "whose tuner chooses, 100 times major and minor: 221 for 2.21"},
    {"nccl.ring_efficiency", "ratio", "NVLink under a long ring, Simple: achieved over nominal"},
    {"nccl.ring_local_bytes_per_s", "byte/s", "what a ring's own pass over its data adds"},
    {"net.bandwidth_loss_per_doubling", "ratio", "network bandwidth lost per doubling of nodes"},
    {"net.crossed_nic_factor", "ratio",
     "what of the NICs a ring gets that enters a node across the host from its NIC"},
    {"net.cube_mesh", "flag", "NVLinks form a hybrid cube mesh (DGX-1) instead of a switch"},
    {"net.hop_ns", "ns", "a network step beyond the latency in NCCL's tuner"},
    {"net.host_bytes_per_s", "byte/s", "a connection of CPU groups (gloo) between hosts"},
    {"net.host_message_ns", "ns", "a message of theirs, through the kernel's sockets"},
    {"net.in_network_reduction", "flag", "switches of the network reduce (SHARP)"},
    {"net.ll128", "flag", "the network keeps the order of 128-byte stores, so that NCCL has LL128"},
    {"net.message_ns", "ns", "a step of a ring over two nodes: NIC and proxy, whatever its bytes"},
    {"net.nic_bytes_per_s", "byte/s", "one NIC, nominal, one direction"},
    {"net.nic_efficiency", "ratio", "NIC: achieved over nominal at large size"},
    {"net.nics_per_node", "1", "NICs of a node"},
    {"net.shared_nic_factor", "ratio", "what of that two GPUs get of a NIC that they share"},
    {"net.nvlink_bytes_per_s", "byte/s", "NVLink of one GPU, nominal, one direction; 0: PCIe only"},
    {"net.nvlink_efficiency", "ratio", "send and receive over NVLink: achieved over nominal"},
    {"net.pcie_bytes_per_s", "byte/s", "PCIe of one GPU, nominal, one direction"},
    {"net.stall_group_nodes", "1",
     "nodes of a tensor-parallel group from which on its sends and receives stall"},
    {"net.stall_nodes", "1", "nodes of a job from which on its sends and receives stall"},
    {"net.stall_ns", "ns", "what such a send takes beyond its transfer"},
    {"overlap.compute_slowdown", "ratio", "compute beside a collective takes this times as long"},
    {"p2p.base_ns", "ns", "fixed latency of a send and receive pair"},
    {"p2p.eager_bytes", "byte", "sends below this size do not wait for their receiver"},
    {"spread.above", "ratio", "measured over predicted at the upper end of an interval, less one"},
    {"spread.assumptions", "ratio",
     "what rows' assumptions widen intervals by, over their own guess"},
    {"spread.below", "ratio", "predicted over measured at the lower end of an interval, less one"},
    {"spread.comm", "ratio", "half width of the interval of transfer times"},
    {"spread.compute", "ratio", "half width of the interval of compute times"},
    {"storage.latency_ns", "ns", "a file written out, or a read that no readahead has fetched"},
    {"storage.read_bytes_per_s", "byte/s", "what one process reads from files, once each byte"},
    {"storage.write_bytes_per_s", "byte/s", "what one process writes to files"},
});

// Storage that is not stated costs no time; run_context.h has what CPU groups take then.
bool MayBeLeftOut(const ParameterKey& key) {
  return key.key.starts_with("storage.") || key.key.starts_with("net.host_");
}

struct Range {
  std::string_view unit;
  double lowest;
  double highest;
};

// Wide enough for any hardware, narrow enough that no product of them overflows int64 nanoseconds
// or bytes.
constexpr auto kRanges = std::to_array<Range>({
    {"1", 1, 65536},
    {"byte", 1, 0x1p46},
    {"byte/s", 1e6, 1e18},
    {"element", 1, 65536},
    {"flag", 0, 1},
    {"flop/s", 1e9, 1e21},
    {"ns", 0, 1e12},
    {"ratio", 1e-6, 1e3},
});

// Keys whose 0 has a meaning: an absent feature, no loss, no spread.
constexpr auto kMayBeZero = std::to_array<std::string_view>({
    "gpu.attention_half_head_dim",
    "gpu.attention_half_seq",
    "gpu.context_bytes",
    "gpu.matmul_half_k",
    "gpu.peak_fp4_flops",
    "gpu.peak_fp8_flops",
    "gpu.peak_tf32_flops",
    "memory.network_groups_bytes",
    "memory.pending_collectives",
    "nccl.channels.nvls",
    "nccl.nvls_efficiency",
    "nccl.ramp",
    "net.bandwidth_loss_per_doubling",
    "net.nvlink_bytes_per_s",
    "p2p.eager_bytes",
    "spread.above",
    "spread.below",
    "spread.comm",
    "spread.compute",
});

// NCCL 2.0 to 2.99, written as the key says: 2.21 would be no release.
constexpr Range kLibraryReleases = {"1", 200, 299};

// Nothing achieves more than its nominal rate.
constexpr Range kShares = {"ratio", 1e-6, 1};

// Nothing runs faster beside a collective.
constexpr Range kSlowdowns = {"ratio", 1, 1e3};

Range RangeOf(const ParameterKey& known) {
  if (known.key == "nccl.release") {
    return kLibraryReleases;
  }
  if (known.key.ends_with("_slowdown")) {
    return kSlowdowns;
  }
  // prism bench accuracy --ablation frees kernels of the rate of device memory.
  if (known.key.ends_with("_efficiency") && known.key != "gpu.hbm_efficiency") {
    return kShares;
  }
  const auto found = std::ranges::find(kRanges, known.unit, &Range::unit);
  PRISM_CHECK_MSG(found != kRanges.end(), known.unit);
  return *found;
}

std::string FaultOf(const ParameterKey& known, const graph::Parameter& given) {
  if (given.unit != known.unit) {
    return fmt::format("parameter {} has the unit '{}'; it must be '{}'", given.key, given.unit,
                       known.unit);
  }
  const bool zero =
      given.value == 0 && std::ranges::find(kMayBeZero, known.key) != kMayBeZero.end();
  const Range range = RangeOf(known);
  if (zero || (given.value >= range.lowest && given.value <= range.highest)) {
    return {};
  }
  return fmt::format("parameter {} is {}; it must be from {} to {} ({})", given.key, given.value,
                     range.lowest, range.highest, known.unit == "1" ? known.meaning : known.unit);
}

}  // namespace

std::span<const ParameterKey> ParameterKeys() {
  return kKeys;
}

std::string_view HostCostKey(graph::OpKind kind) {
  switch (kind) {
    case graph::OpKind::kKernel:
      return "host.kernel_ns";
    case graph::OpKind::kMemcpy:
      return "host.memcpy_ns";
    case graph::OpKind::kMemset:
      return "host.memset_ns";
    case graph::OpKind::kEventRecord:
      return "host.event_record_ns";
    case graph::OpKind::kEventWait:
      return "host.event_wait_ns";
    case graph::OpKind::kEventSync:
      return "host.event_sync_ns";
    case graph::OpKind::kStreamSync:
      return "host.stream_sync_ns";
    case graph::OpKind::kDeviceSync:
      return "host.device_sync_ns";
    case graph::OpKind::kCollective:
      return "host.collective_ns";
    case graph::OpKind::kPeerGroup:
      return "host.peer_group_ns";
    case graph::OpKind::kSegmentAlloc:
      return "host.segment_alloc_ns";
    case graph::OpKind::kSegmentFree:
      return "host.segment_free_ns";
    case graph::OpKind::kHostGap:
    case graph::OpKind::kMarker:
      return "";
  }
  return "";
}

std::vector<DurationNs> HostCosts(const graph::ParameterTable& table) {
  std::vector<DurationNs> costs(graph::kOpKindCount, 0);
  for (size_t kind = 0; kind < costs.size(); ++kind) {
    const std::string_view key = HostCostKey(static_cast<graph::OpKind>(kind));
    costs[kind] = key.empty() ? 0 : static_cast<DurationNs>(table.Value(key));
  }
  return costs;
}

std::vector<std::string> CheckParameters(const graph::ParameterTable& table) {
  std::vector<std::string> faults;
  for (const ParameterKey& known : kKeys) {
    if (!MayBeLeftOut(known) && table.Find(known.key) == nullptr) {
      faults.push_back(
          fmt::format("parameter {} is missing ({}, in {})", known.key, known.meaning, known.unit));
    }
  }
  for (const graph::Parameter& given : table.all()) {
    if (IsMeasuredKernelKey(given.key) || IsRecordedKey(given.key)) {
      const std::string fault = FaultOf({given.key, "ns", "a measured kernel"}, given);
      if (!fault.empty()) {
        faults.push_back(fault);
      }
      continue;
    }
    const auto known = std::ranges::find(kKeys, given.key, &ParameterKey::key);
    std::string fault = known == kKeys.end() ? fmt::format("parameter {} is unknown", given.key)
                                             : FaultOf(*known, given);
    if (!fault.empty()) {
      faults.push_back(std::move(fault));
    }
  }
  return faults;
}

}  // namespace prism::replayer
