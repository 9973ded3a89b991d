// Device memory that NCCL takes outside the framework's allocator, at the moment a real NCCL would:
// the communicator itself at set-up, ring and NVLS buffers at the first collective that uses them,
// send/recv buffers at the first exchange with a peer. How much: graph/job/nccl_memory.h.
#pragma once

#include <cstdint>
#include <set>

#include "graph/job/nccl_memory.h"

namespace prism::shim {

// What one communicator has taken so far. Not thread-safe (the communicator's lock is held). Every
// call returns false when the device is full; a real NCCL then fails with a CUDA error.
class CommunicatorMemory {
 public:
  void Describe(uint32_t comm, const graph::CommunicatorShape& shape);
  [[nodiscard]] bool TakeSetup();
  [[nodiscard]] bool TakeForCollective(bool is_all_reduce);
  [[nodiscard]] bool TakeForPeer(int32_t peer, bool same_node, bool is_send);
  void GiveBack();

 private:
  bool Take(const char* what, int64_t bytes);

  uint32_t comm_ = 0;
  graph::CommunicatorShape shape_;
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
