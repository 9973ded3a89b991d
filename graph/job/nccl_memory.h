// Device memory that NCCL takes for a communicator, outside the framework's allocator. The formulas
// add up what the sources of NCCL 2.28.9 allocate (src/init.cc, src/channel.cc,
// src/include/device.h, src/include/alloc.h, src/transport/*.cc). Header only: the shim takes this
// memory from the virtual device, a search adds it up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/base/divide.h"

namespace prism::graph {

// What a rank's buffers depend on in a communicator.
struct CommunicatorShape {
  int32_t size = 1;
  int32_t local_ranks = 1;  // members on this rank's node, this one included
  int32_t node_count = 1;
};

// Bytes on one rank's device.
struct NcclMemoryModel {
  int64_t collective_channels = 0;
  int64_t p2p_channels = 0;
  int64_t p2p_channels_per_peer = 0;
  int64_t nvls_channels = 0;  // 0: no NVLS on this GPU
  int64_t granularity_bytes = 1;
  // NVLink peers copy by reading, and so hold buffers on both sides (sm_80); all others write into
  // the receiver's.
  bool reads_peers = false;

  // A single NVLS communicator needs several GPUs of a node; two talk directly
  // (src/transport/nvls.cc ncclNvlsInit).
  [[nodiscard]] bool HasNvls(const CommunicatorShape& shape) const {
    return nvls_channels > 0 && shape.local_ranks > 2;
  }

  // Device communicator, rank table, three small arrays per channel; with NVLS also one array per
  // NVLS channel, and the credits. Each of them takes a whole granule.
  [[nodiscard]] int64_t SetupBytes(const CommunicatorShape& shape) const {
    const int64_t granules = 2 + 3 * std::max(collective_channels, p2p_channels);
    return (granules + (HasNvls(shape) ? nvls_channels + 1 : 0)) * Round(1);
  }

  // A ring enters and leaves a node once per channel. The local rank that holds this end rotates
  // over the channels, so each has its share of network ends, and direct connections for the rest.
  [[nodiscard]] int64_t RingBytes(const CommunicatorShape& shape) const {
    if (shape.size < 2) {
      return 0;
    }
    const int64_t local = std::max(1, shape.local_ranks);
    const int64_t network_ends = shape.node_count > 1 ? DivideUp(collective_channels, local) : 0;
    const int64_t direct = Round(ConnectionBytes(true)) + Round(ConnectionBytes(false));
    // src/transport/net.cc with GPUDirect: LL of the sender is on the host.
    const int64_t network =
        Round(kLl128Bytes + kSimpleBytes) + Round(kLlBytes + kLl128Bytes + kSimpleBytes);
    return network_ends * network + (collective_channels - network_ends) * direct;
  }

  // src/transport/nvls.cc: 8 steps of 128 KiB per head and direction.
  [[nodiscard]] int64_t NvlsBytes(const CommunicatorShape& shape) const {
    constexpr int64_t kHeadBytes = 8 * (128 << 10);
    return HasNvls(shape) ? Round(2 * nvls_channels * kHeadBytes * shape.local_ranks) : 0;
  }

  // Sends to, or receives from, a peer on the same node.
  [[nodiscard]] int64_t PeerBytes(bool is_send) const {
    return p2p_channels_per_peer * Round(ConnectionBytes(is_send));
  }

  // All sends, or all receives, over the network (src/transport/net.cc): slots per channel times
  // the chunk of send/recv (NCCL_P2P_NET_CHUNKSIZE).
  [[nodiscard]] int64_t NetworkPeerBytes() const {
    constexpr int64_t kSlots = 16;
    constexpr int64_t kChunkBytes = 128 << 10;
    return Round(p2p_channels * kSlots * kChunkBytes);
  }

 private:
  // src/init.cc computeBuffSizes, src/include/device.h: bytes per connection and channel.
  static constexpr int64_t kSimpleBytes = 4'194'304;
  static constexpr int64_t kLlBytes = 524'288;
  static constexpr int64_t kLl128Bytes = 4'915'200;
  static constexpr int64_t kControlBytes = 4096;  // head and tail counters of a connection

  // One end of a connection within a node (src/transport/p2p.cc): the receiver holds the buffers,
  // except that the sender holds the Simple one where peers read.
  [[nodiscard]] int64_t ConnectionBytes(bool is_send) const {
    const bool holds_simple = is_send == reads_peers;
    return kControlBytes + (is_send ? 0 : kLlBytes + kLl128Bytes) +
           (holds_simple ? kSimpleBytes : 0);
  }

  [[nodiscard]] int64_t Round(int64_t bytes) const {
    return RoundUp(bytes, std::max<int64_t>(1, granularity_bytes));
  }
};

}  // namespace prism::graph
