// What device_values.h declares, for the virtual device. Nothing runs there, so a call's values
// move at once, unless other sandbox ranks have not called yet. Then the call returns, as it would
// on a GPU, and the move is deferred with two things that keep the result the same: the memory that
// it reads or writes, at which every other access waits for it, and the orders in which it stands,
// since collectives of one communicator, and messages of one direction between two ranks, begin in
// turn.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "graph/base/mix.h"
#include "shim/nccl/collective_values.h"
#include "shim/nccl/deferred_moves.h"
#include "shim/nccl/device_values.h"
#include "shim/virtual_device/memory.h"

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

// Has no state; never destroyed, as deferred moves use it until the process ends.
DeviceMemory& TheMemory() {
  alignas(DeviceMemory) static std::byte storage[sizeof(DeviceMemory)];
  static DeviceMemory* const memory = new (storage) DeviceMemory();
  return *memory;
}

bool IsAmongPresent(const NcclOp& op) {
  return IsTransfer(op) ? op.communicator->IsPresent(op.root) : op.communicator->present.size() > 1;
}

void AddClaims(const NcclOp& op, Move* move) {
  const size_t bytes = op.count * ElementBytes(op.element);
  const Blocks blocks = BlocksOf(op);
  const auto add = [&](const void* begin, int32_t count, bool writes) {
    if (begin != nullptr && count > 0) {
      move->claims.push_back({begin, bytes * static_cast<size_t>(count), writes});
    }
  };
  add(op.send, blocks.read, false);
  add(op.recv, blocks.written, true);
  if (op.scaled.on_device) {
    move->claims.push_back({op.scaled.device, ElementBytes(op.scaled.element), false});
  }
  move->communicators.push_back(op.communicator->identity);
}

// A communicator's collectives begin in turn; so do messages of one direction between two members.
uint64_t OrderOf(const NcclOp& op) {
  const uint64_t identity = op.communicator->identity;
  switch (op.operation) {
    case ExchangeOperation::kSend:
      return MixBits(identity + 2 * (static_cast<uint64_t>(op.root) + 1));
    case ExchangeOperation::kRecv:
      return MixBits(identity + 2 * (static_cast<uint64_t>(op.root) + 1) + 1);
    default:
      return identity;
  }
}

// Other sandbox ranks may be waiting for deferred moves.
__attribute__((destructor)) void FinishDeferred() {
  AwaitAllDeferred();
}

}  // namespace

NcclStream StreamOfCall(cudaStream_t given) {
  return {given, 0};
}

ncclResult_t MoveCollective(const NcclOp& op, uint32_t sequence) {
  if (!IsAmongPresent(op) && !AnyDeferred()) {
    return ExchangeCollective(op, sequence, &TheMemory());
  }
  Move move;
  AddClaims(op, &move);
  move.orders.push_back(OrderOf(op));
  const auto exchange = std::make_shared<CollectiveExchange>(op, sequence, &TheMemory());
  move.run = [exchange](Patience patience) { return exchange->Run(patience); };
  return static_cast<ncclResult_t>(RunOrDefer(std::move(move)));
}

ncclResult_t MoveTransfers(std::span<const NcclOp> ops) {
  if (std::ranges::none_of(ops, IsAmongPresent) && !AnyDeferred()) {
    return ExchangeTransfers(ops, &TheMemory());
  }
  Move move;
  for (const NcclOp& op : ops) {
    AddClaims(op, &move);
    move.orders.push_back(OrderOf(op));
  }
  const auto exchange = std::make_shared<TransfersExchange>(
      std::vector<NcclOp>(ops.begin(), ops.end()), &TheMemory());
  move.run = [exchange](Patience patience) { return exchange->Run(patience); };
  return static_cast<ncclResult_t>(RunOrDefer(std::move(move)));
}

ncclResult_t Capture(std::span<NcclOp> /*ops*/) {
  return ncclSuccess;
}

}  // namespace prism::shim
