#include "shim/nccl/ballast.h"

#include "shim/session.h"
#include "shim/virtual_device/memory.h"

namespace prism::shim {
namespace {

graph::NcclMemoryModel Model() {
  const channel::Config& config = SessionConfig();
  return {.collective_channels = config.nccl.collective_channels,
          .p2p_channels = config.nccl.p2p_channels,
          .p2p_channels_per_peer = config.nccl.p2p_channels_per_peer,
          .nvls_channels = config.nccl.nvls_channels,
          .granularity_bytes = config.nccl.granularity_bytes,
          .reads_peers = config.device.compute_major == 8 && config.device.compute_minor == 0};
}

}  // namespace

void CommunicatorMemory::Describe(uint32_t comm, const graph::CommunicatorShape& shape) {
  comm_ = comm;
  shape_ = shape;
}

bool CommunicatorMemory::Take(const char* what, int64_t bytes) {
  return bytes == 0 || AccountOutside(what, comm_, bytes);
}

bool CommunicatorMemory::TakeSetup() {
  const int64_t bytes = Model().SetupBytes(shape_);
  if (!Take("nccl setup", bytes)) {
    return false;
  }
  setup_bytes_ = bytes;
  return true;
}

// Inside one node an all_reduce uses NVLS if available; everything else starts with the ring
// (src/graph/tuning.cc prefers them for the sizes that training moves).
bool CommunicatorMemory::TakeForCollective(bool is_all_reduce) {
  const graph::NcclMemoryModel model = Model();
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
  const graph::NcclMemoryModel model = Model();
  const int64_t key = 2 * int64_t{peer} + (is_send ? 1 : 0);
  int64_t bytes = 0;
  if (same_node) {
    bytes = peers_.contains(key) ? 0 : model.PeerBytes(is_send);
  } else if (!has_network_[is_send ? 1 : 0]) {
    bytes = shape_.node_count > 1 ? model.NetworkPeerBytes() : 0;
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
