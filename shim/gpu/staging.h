// Host copies of the buffers of NCCL calls on a real device: filled in stream order before a hold,
// used by the exchange during the hold, written back after it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "shim/nccl/group.h"

namespace prism::shim {

class Staging : public Memory {
 public:
  // Allocates room for what the ops read and write; nullptr if there is no pinned memory left.
  static std::unique_ptr<Staging> Create(std::span<const NcclOp> ops);
  ~Staging() override;  // once the stream has passed CopyOut
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Enqueue; false when the device refuses.
  bool CopyIn(cudaStream_t stream);
  bool CopyOut(cudaStream_t stream);

  // Addresses are those on the device.
  bool Read(const void* source, size_t bytes, void* out) override;
  void Write(void* target, size_t bytes, const void* data) override;
  void Invalidate(void* target, size_t bytes) override;
  bool AnyValid(const void* source, size_t bytes) override;
  void Reduce(const ReductionCall& call, void* target, void* scratch) override;
  // A buffer of its own holds nothing yet, as far as is known here.
  [[nodiscard]] bool KeepsLargeSlots() const override { return in_place_; }

 private:
  // Contiguous device bytes, with the place of their copy.
  struct Range {
    std::byte* device;
    size_t bytes;
    bool read;
    bool written;
    size_t offset = 0;
  };

  Staging() = default;
  void AddRead(const void* device, size_t bytes);
  void AddWritten(void* device, size_t bytes);
  void Join();
  std::byte* OnHost(const void* device);
  bool Copy(cudaStream_t stream, bool in);

  std::vector<Range> ranges_;
  std::byte* host_ = nullptr;
  size_t host_bytes_ = 0;
  bool in_place_ = false;  // an op sends from where it receives
};

}  // namespace prism::shim
