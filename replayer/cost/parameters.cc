#include "replayer/cost/parameters.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"

namespace prism::replayer {
namespace {

constexpr auto kKeys = std::to_array<ParameterKey>({
    {"gpu.attention_efficiency", "ratio", "fused attention forward: achieved over dense peak"},
    {"gpu.attention_backward_efficiency", "ratio", "fused attention backward likewise"},
    {"gpu.context_bytes", "byte", "device memory of a CUDA context with the framework's kernels"},
    {"gpu.copy_bytes_per_s", "byte/s", "copies between host and device"},
    {"gpu.hbm_bytes_per_s", "byte/s", "device memory, nominal"},
    {"gpu.hbm_efficiency", "ratio", "device memory: achieved over nominal at large size"},
    {"gpu.kernel_floor_ns", "ns", "shortest time a kernel occupies its stream"},
    {"gpu.kernel_gap_ns", "ns", "between two kernels of a stream that is full"},
    {"gpu.matmul_efficiency", "ratio", "large matrix products: achieved over dense peak"},
    {"gpu.matmul_half_k", "element", "inner length at which half of that efficiency is reached"},
    {"gpu.matmul_tile_m", "element", "rows of the tile that one SM works on"},
    {"gpu.matmul_tile_n", "element", "columns of that tile"},
    {"gpu.peak_bf16_flops", "flop/s", "dense matrix peak, bf16 and fp16"},
    {"gpu.peak_fp32_flops", "flop/s", "fp32 peak outside of matrix units"},
    {"gpu.peak_fp8_flops", "flop/s", "dense matrix peak, fp8; 0 where there is none"},
    {"gpu.peak_tf32_flops", "flop/s", "dense matrix peak, tf32"},
    {"host.collective_ns", "ns", "host thread: one collective call through the framework"},
    {"host.device_sync_ns", "ns", "host thread: cudaDeviceSynchronize beyond its wait"},
    {"host.event_record_ns", "ns", "host thread: cudaEventRecord"},
    {"host.event_sync_ns", "ns", "host thread: cudaEventSynchronize beyond its wait"},
    {"host.event_wait_ns", "ns", "host thread: cudaStreamWaitEvent"},
    {"host.kernel_ns", "ns", "host thread: one kernel launch with its framework op"},
    {"host.memcpy_ns", "ns", "host thread: one asynchronous copy"},
    {"host.memset_ns", "ns", "host thread: one asynchronous memset"},
    {"host.peer_group_ns", "ns", "host thread: one group of sends and receives"},
    {"host.poll_ns", "ns", "host thread: an event query that answers \"not ready\""},
    {"host.segment_alloc_ns", "ns", "host thread: one cudaMalloc"},
    {"host.segment_free_ns", "ns", "host thread: one cudaFree"},
    {"host.stream_sync_ns", "ns", "host thread: cudaStreamSynchronize beyond its wait"},
    {"nccl.base.ring.ll128_ns", "ns", "fixed latency of ring with LL128"},
    {"nccl.base.ring.ll_ns", "ns", "fixed latency of ring with LL"},
    {"nccl.base.ring.simple_ns", "ns", "fixed latency of ring with Simple"},
    {"nccl.base.tree.ll128_ns", "ns", "fixed latency of tree with LL128"},
    {"nccl.base.tree.ll_ns", "ns", "fixed latency of tree with LL"},
    {"nccl.base.tree.simple_ns", "ns", "fixed latency of tree with Simple"},
    {"nccl.channels.collective", "1", "channels of a communicator's rings and trees"},
    {"nccl.channels.nvls", "1", "channels of NVLS; 0 where there is none"},
    {"nccl.channels.p2p", "1", "channels of send and receive"},
    {"nccl.channels.p2p_per_peer", "1", "of these, used for one peer"},
    {"nccl.granularity_bytes", "byte", "every device allocation of NCCL is rounded up to this"},
    {"nccl.inter.ring.ll128_ns", "ns", "latency of one step over the network, ring LL128"},
    {"nccl.inter.ring.ll_ns", "ns", "latency of one step over the network, ring LL"},
    {"nccl.inter.ring.simple_ns", "ns", "latency of one step over the network, ring Simple"},
    {"nccl.inter.tree.ll128_ns", "ns", "latency of one step over the network, tree LL128"},
    {"nccl.inter.tree.ll_ns", "ns", "latency of one step over the network, tree LL"},
    {"nccl.inter.tree.simple_ns", "ns", "latency of one step over the network, tree Simple"},
    {"nccl.intra.ring.ll128_ns", "ns", "latency of one step over NVLink, ring LL128"},
    {"nccl.intra.ring.ll_ns", "ns", "latency of one step over NVLink, ring LL"},
    {"nccl.intra.ring.simple_ns", "ns", "latency of one step over NVLink, ring Simple"},
    {"nccl.intra.tree.ll128_ns", "ns", "latency of one step over NVLink, tree LL128"},
    {"nccl.intra.tree.ll_ns", "ns", "latency of one step over NVLink, tree LL"},
    {"nccl.intra.tree.simple_ns", "ns", "latency of one step over NVLink, tree Simple"},
    {"nccl.ll128_bandwidth_factor", "ratio", "bandwidth of LL128 over Simple, ring"},
    {"nccl.ll_bandwidth_factor", "ratio", "bandwidth of LL over Simple, ring"},
    {"nccl.ll_bytes_per_s_1node", "byte/s", "cap of LL bandwidth, one node"},
    {"nccl.ll_bytes_per_s_2nodes", "byte/s", "cap of LL bandwidth, two nodes"},
    {"nccl.ll_bytes_per_s_nodes", "byte/s", "cap of LL bandwidth, more than two nodes"},
    {"nccl.nvls_busbw_bytes_per_s", "byte/s", "bus bandwidth of NVLS; 0 where there is none"},
    {"nccl.nvls_latency_ns", "ns", "latency of NVLS inside a node"},
    {"nccl.post_overhead_ns", "ns", "posting one network step; three times that for Simple"},
    {"nccl.ring_busbw_bytes_per_s", "byte/s", "bus bandwidth of ring Simple inside a node"},
    {"nccl.tree_bandwidth_factor", "ratio", "bandwidth of tree Simple over ring Simple"},
    {"nccl.tree_ll128_bandwidth_factor", "ratio", "bandwidth of tree LL128 over tree Simple"},
    {"nccl.tree_ll_bandwidth_factor", "ratio", "bandwidth of tree LL over tree Simple"},
    {"net.bandwidth_loss_per_doubling", "ratio", "network bandwidth lost per doubling of nodes"},
    {"net.nic_bytes_per_s", "byte/s", "one NIC, nominal, one direction"},
    {"net.nic_efficiency", "ratio", "NIC: achieved over nominal at large size"},
    {"net.nics_per_node", "1", "NICs of a node"},
    {"net.nvlink_bytes_per_s", "byte/s", "NVLink of one GPU, nominal, one direction"},
    {"net.nvlink_efficiency", "ratio", "send and receive over NVLink: achieved over nominal"},
    {"overlap.compute_slowdown", "ratio", "compute beside a collective takes this times as long"},
    {"p2p.base_ns", "ns", "fixed latency of a send and receive pair"},
    {"p2p.eager_bytes", "byte", "sends below this size do not wait for their receiver"},
    {"spread.comm", "ratio", "half width of the interval of transfer times"},
    {"spread.compute", "ratio", "half width of the interval of compute times"},
});

struct Range {
  std::string_view unit;
  double lowest;
  double highest;
};

// Wide enough for any hardware, narrow enough that no product of them leaves int64 nanoseconds or
// bytes.
constexpr auto kRanges = std::to_array<Range>({
    {"1", 1, 65536},
    {"byte", 1, 0x1p46},
    {"byte/s", 1e6, 1e18},
    {"element", 1, 65536},
    {"flop/s", 1e9, 1e21},
    {"ns", 0, 1e12},
    {"ratio", 1e-6, 1e3},
});

// Keys whose 0 has a meaning: a feature that is not there, no loss, no spread.
constexpr auto kMayBeZero = std::to_array<std::string_view>({
    "gpu.context_bytes",
    "gpu.peak_fp8_flops",
    "nccl.channels.nvls",
    "nccl.nvls_busbw_bytes_per_s",
    "net.bandwidth_loss_per_doubling",
    "p2p.eager_bytes",
    "spread.comm",
    "spread.compute",
});

Range RangeOf(const ParameterKey& known) {
  const auto found = std::find_if(kRanges.begin(), kRanges.end(),
                                  [&](const Range& range) { return range.unit == known.unit; });
  PRISM_CHECK_MSG(found != kRanges.end(), known.unit);
  return *found;
}

std::string FaultOf(const ParameterKey& known, const graph::Parameter& given) {
  if (given.unit != known.unit) {
    return fmt::format("parameter {} is in '{}' instead of '{}'", given.key, given.unit,
                       known.unit);
  }
  const bool zero = given.value == 0 &&
                    std::find(kMayBeZero.begin(), kMayBeZero.end(), known.key) != kMayBeZero.end();
  const Range range = RangeOf(known);
  if (zero || (given.value >= range.lowest && given.value <= range.highest)) {
    return {};
  }
  return fmt::format("parameter {} is {}; from {} to {} {} is possible", given.key, given.value,
                     range.lowest, range.highest, known.unit);
}

}  // namespace

std::span<const ParameterKey> ParameterKeys() {
  return kKeys;
}

std::vector<std::string> CheckParameters(const graph::ParameterTable& table) {
  std::vector<std::string> faults;
  for (const ParameterKey& known : kKeys) {
    if (table.Find(known.key) == nullptr) {
      faults.push_back(
          fmt::format("parameter {} is missing ({}, in {})", known.key, known.meaning, known.unit));
    }
  }
  for (const graph::Parameter& given : table.all()) {
    const auto known = std::find_if(kKeys.begin(), kKeys.end(),
                                    [&](const ParameterKey& key) { return key.key == given.key; });
    std::string fault = known == kKeys.end() ? fmt::format("parameter {} is unknown", given.key)
                                             : FaultOf(*known, given);
    if (!fault.empty()) {
      faults.push_back(std::move(fault));
    }
  }
  return faults;
}

}  // namespace prism::replayer
