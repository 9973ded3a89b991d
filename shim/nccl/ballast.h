// Device memory that NCCL takes outside of the framework's allocator, at the moment a real NCCL
// would: the communicator itself at set-up, ring and NVLS buffers at the first collective that
// uses them, send/recv buffers at the first exchange with a peer. Formulas: MEMORY.md section 2 of
// the design, from the sources of NCCL 2.28.9 (src/init.cc, src/channel.cc, src/transport/*.cc).
//
// Pure arithmetic here (tested against worked numbers); CommunicatorMemory keeps the account of one
// communicator.
#pragma once

#include <cstdint>
#include <set>

#include "shim/channel/messages.h"

namespace prism::shim {

// A communicator as its rank's buffers depend on it.
struct CommunicatorShape {
  int32_t size = 1;
  int32_t local_ranks = 1;  // members on this rank's node, this one included
  int32_t node_count = 1;
};

// The GPUs whose NVLink peers copy by reading (sm_80) hold the buffers on both sides; all others
// write into the receiver's.
struct NcclMemoryModel {
  channel::NcclProfile profile;
  bool reads_peers = false;

  explicit NcclMemoryModel(const channel::Config& config);

  [[nodiscard]] bool HasNvls(const CommunicatorShape& shape) const;

  // Bytes on this rank's device.
  [[nodiscard]] int64_t SetupBytes(const CommunicatorShape& shape) const;
  [[nodiscard]] int64_t RingBytes(const CommunicatorShape& shape) const;
  [[nodiscard]] int64_t NvlsBytes(const CommunicatorShape& shape) const;
  [[nodiscard]] int64_t PeerBytes(bool is_send) const;  // a peer on the same node
  [[nodiscard]] int64_t NetworkPeerBytes(const CommunicatorShape& shape) const;  // one direction

 private:
  [[nodiscard]] int64_t Round(int64_t bytes) const;
};

// What one communicator has taken so far. Not thread-safe (the communicator's lock is held). Every
// call returns false when the device is full; a real NCCL then fails with a CUDA error.
class CommunicatorMemory {
 public:
  void Describe(uint32_t comm, const CommunicatorShape& shape);
  [[nodiscard]] bool TakeSetup();
  [[nodiscard]] bool TakeForCollective(bool is_all_reduce);
  [[nodiscard]] bool TakeForPeer(int32_t peer, bool same_node, bool is_send);
  void GiveBack();

 private:
  bool Take(const char* what, int64_t bytes);

  uint32_t comm_ = 0;
  CommunicatorShape shape_;
  bool has_ring_ = false;
  bool has_nvls_ = false;
  bool has_network_[2] = {false, false};
  std::set<int64_t> peers_;  // 2 × peer + is_send
  int64_t setup_bytes_ = 0;
  int64_t ring_bytes_ = 0;
  int64_t nvls_bytes_ = 0;
  int64_t peer_bytes_ = 0;
};

}  // namespace prism::shim
