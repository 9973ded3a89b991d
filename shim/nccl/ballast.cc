#include "shim/nccl/ballast.h"

#include <algorithm>

#include "shim/cuda/memory.h"
#include "shim/session.h"

namespace prism::shim {

namespace {

// src/init.cc computeBuffSizes, src/include/device.h: bytes per connection and channel.
constexpr int64_t kSimpleBytes = 4'194'304;
constexpr int64_t kLlBytes = 524'288;
constexpr int64_t kLl128Bytes = 4'915'200;
constexpr int64_t kControlBytes = 4096;  // head and tail counters of a connection

// src/transport/p2p.cc: in write mode the receiver holds all buffers, in read mode the sender holds
// the Simple one.
constexpr int64_t kWriteReceiverBytes = kControlBytes + kLlBytes + kLl128Bytes + kSimpleBytes;
constexpr int64_t kWriteSenderBytes = kControlBytes;
constexpr int64_t kReadReceiverBytes = kControlBytes + kLlBytes + kLl128Bytes;
constexpr int64_t kReadSenderBytes = kControlBytes + kSimpleBytes;

// src/transport/net.cc with GPUDirect: LL of the sender is on the host.
constexpr int64_t kNetworkSenderBytes = kLl128Bytes + kSimpleBytes;
constexpr int64_t kNetworkReceiverBytes = kLlBytes + kLl128Bytes + kSimpleBytes;

// src/transport/net.cc, send/recv over the network: slots a channel times the chunk of send/recv
// (NCCL_P2P_NET_CHUNKSIZE).
constexpr int64_t kNetworkSlots = 16;
constexpr int64_t kNetworkChunkBytes = 128 << 10;

// src/transport/nvls.cc: 8 steps of 128 KiB a head and direction.
constexpr int64_t kNvlsHeadBytes = 8 * (128 << 10);

}  // namespace

NcclMemoryModel::NcclMemoryModel(const channel::Config& config)
    : profile(config.nccl),
      reads_peers(config.device.compute_major == 8 && config.device.compute_minor == 0) {
}

int64_t NcclMemoryModel::Round(int64_t bytes) const {
  const int64_t granularity = std::max<int64_t>(1, profile.granularity_bytes);
  return (bytes + granularity - 1) / granularity * granularity;
}

// A single NVLS communicator needs several GPUs of a node; two talk directly (src/transport/nvls.cc
// ncclNvlsInit).
bool NcclMemoryModel::HasNvls(const CommunicatorShape& shape) const {
  return profile.nvls_channels > 0 && shape.local_ranks > 2;
}

// Device communicator, rank table, three small arrays a channel; with NVLS one array more a channel
// of it and the credits. Every one of them takes a whole granule.
int64_t NcclMemoryModel::SetupBytes(const CommunicatorShape& shape) const {
  const int64_t channels = std::max(profile.collective_channels, profile.p2p_channels);
  int64_t granules = 2 + 3 * channels;
  if (HasNvls(shape)) {
    granules += profile.nvls_channels + 1;
  }
  return granules * Round(1);
}

// A ring enters and leaves a node once a channel; which local rank holds that end goes round over
// the channels, so each has its share of network ends and direct connections for the rest.
int64_t NcclMemoryModel::RingBytes(const CommunicatorShape& shape) const {
  if (shape.size < 2) {
    return 0;
  }
  const int64_t channels = profile.collective_channels;
  const int64_t local = std::max(1, shape.local_ranks);
  const int64_t network_ends = shape.node_count > 1 ? (channels + local - 1) / local : 0;
  const int64_t direct = Round(reads_peers ? kReadSenderBytes : kWriteSenderBytes) +
                         Round(reads_peers ? kReadReceiverBytes : kWriteReceiverBytes);
  const int64_t network = Round(kNetworkSenderBytes) + Round(kNetworkReceiverBytes);
  return network_ends * network + (channels - network_ends) * direct;
}

int64_t NcclMemoryModel::NvlsBytes(const CommunicatorShape& shape) const {
  return HasNvls(shape)
             ? Round(int64_t{2} * profile.nvls_channels * kNvlsHeadBytes * shape.local_ranks)
             : 0;
}

int64_t NcclMemoryModel::PeerBytes(bool is_send) const {
  const int64_t writes = is_send ? kWriteSenderBytes : kWriteReceiverBytes;
  const int64_t reads = is_send ? kReadSenderBytes : kReadReceiverBytes;
  return profile.p2p_channels_per_peer * Round(reads_peers ? reads : writes);
}

int64_t NcclMemoryModel::NetworkPeerBytes(const CommunicatorShape& shape) const {
  return shape.node_count > 1 ? Round(profile.p2p_channels * kNetworkSlots * kNetworkChunkBytes)
                              : 0;
}

void CommunicatorMemory::Describe(uint32_t comm, const CommunicatorShape& shape) {
  comm_ = comm;
  shape_ = shape;
}

bool CommunicatorMemory::Take(const char* what, int64_t bytes) {
  return bytes == 0 || AccountOutside(what, comm_, bytes);
}

bool CommunicatorMemory::TakeSetup() {
  const int64_t bytes = NcclMemoryModel(SessionConfig()).SetupBytes(shape_);
  if (!Take("nccl setup", bytes)) {
    return false;
  }
  setup_bytes_ = bytes;
  return true;
}

// Inside one node an all_reduce goes by NVLS where there is NVLS; everything else starts with the
// ring (src/graph/tuning.cc prefers them for the sizes that training moves).
bool CommunicatorMemory::TakeForCollective(bool is_all_reduce) {
  const NcclMemoryModel model(SessionConfig());
  if (is_all_reduce && shape_.node_count == 1 && model.HasNvls(shape_)) {
    const int64_t bytes = has_nvls_ ? 0 : model.NvlsBytes(shape_);
    if (!Take("nccl nvls", bytes)) {
      return false;
    }
    nvls_bytes_ += bytes;
    has_nvls_ = true;
    return true;
  }
  const int64_t bytes = has_ring_ ? 0 : model.RingBytes(shape_);
  if (!Take("nccl ring", bytes)) {
    return false;
  }
  ring_bytes_ += bytes;
  has_ring_ = true;
  return true;
}

bool CommunicatorMemory::TakeForPeer(int32_t peer, bool same_node, bool is_send) {
  const NcclMemoryModel model(SessionConfig());
  const int64_t key = 2 * int64_t{peer} + (is_send ? 1 : 0);
  int64_t bytes = 0;
  if (same_node) {
    bytes = peers_.contains(key) ? 0 : model.PeerBytes(is_send);
  } else if (!has_network_[is_send ? 1 : 0]) {
    bytes = model.NetworkPeerBytes(shape_);
  }
  if (!Take("nccl p2p", bytes)) {
    return false;
  }
  peer_bytes_ += bytes;
  if (same_node) {
    peers_.insert(key);
  } else {
    has_network_[is_send ? 1 : 0] = true;
  }
  return true;
}

void CommunicatorMemory::GiveBack() {
  (void)Take("nccl setup", -setup_bytes_);
  (void)Take("nccl ring", -ring_bytes_);
  (void)Take("nccl nvls", -nvls_bytes_);
  (void)Take("nccl p2p", -peer_bytes_);
  setup_bytes_ = ring_bytes_ = nvls_bytes_ = peer_bytes_ = 0;
}

}  // namespace prism::shim
