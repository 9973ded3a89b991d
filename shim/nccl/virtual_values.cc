#include "shim/cuda/memory.h"
#include "shim/nccl/device_values.h"
#include "shim/nccl/value_policy.h"

namespace prism::shim {

namespace {

class DeviceMemory : public Memory {
 public:
  bool Read(const void* source, size_t bytes, void* out) override {
    return ReadBytes(out, source, bytes) != 0;
  }
  void Write(void* target, size_t bytes, const void* data) override {
    WriteBytes(target, data, bytes);
  }
  void Invalidate(void* target, size_t bytes) override { prism::shim::Invalidate(target, bytes); }
  bool AnyValid(const void* source, size_t bytes) override {
    return source != nullptr && bytes != 0 && ValidBytes(source, bytes) != 0;
  }
};

}  // namespace

NcclStream StreamOfCall(cudaStream_t given) {
  return {given, 0};
}

ncclResult_t MoveCollective(const NcclOp& op, uint32_t sequence) {
  DeviceMemory memory;
  return ExchangeCollective(op, sequence, &memory);
}

ncclResult_t MoveTransfers(std::span<const NcclOp> ops) {
  DeviceMemory memory;
  return ExchangeTransfers(ops, &memory);
}

ncclResult_t Capture(std::span<NcclOp> /*ops*/) {
  return ncclSuccess;
}

}  // namespace prism::shim
