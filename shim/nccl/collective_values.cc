#include "shim/nccl/collective_values.h"

#include <cstdio>
#include <mutex>
#include <utility>

#include "shim/session.h"
#include "shim/virtual_device/memory.h"

namespace prism::shim {

namespace {

Reduction ReductionOf(const NcclOp& op) {
  Reduction reduction;
  if (op.reduction < 0) {
    return reduction;
  }
  if (op.reduction < ncclNumOps) {
    reduction.kind = static_cast<ReduceKind>(op.reduction);
    return reduction;
  }
  const ScaledSum& sum = op.scaled;
  reduction.scale = sum.scale;
  if (sum.on_device) {
    std::byte scalar[8] = {};
    ReadBytes(scalar, sum.device, ElementBytes(sum.element));
    reduction.scale = ReadScalar(scalar, sum.element);
  }
  return reduction;
}

ExchangeCall CallOf(const NcclOp& op, uint32_t sequence) {
  ExchangeCall call;
  call.group = op.communicator->Group();
  call.sequence = sequence;
  call.count = op.count;
  call.element = op.element;
  call.reduction = ReductionOf(op);
  call.root = op.root;
  call.given_up = &op.communicator->aborted;
  return call;
}

// A failed exchange cannot be recovered: the communicator stays in error, as after a lost peer.
ncclResult_t Fail(Communicator* communicator, const ExchangeStatus& status) {
  const ncclResult_t code =
      status.code == ExchangeCode::kMismatch ? ncclInvalidUsage : ncclRemoteError;
  communicator->async_error.store(code);
  std::fprintf(stderr, "prism shim: %s\n", status.message);
  return SetLastError(code, status.message);
}

}  // namespace

ncclResult_t ExchangeCollective(const NcclOp& op, uint32_t sequence, Memory* memory) {
  Exchange exchange(SharedArena(), memory);
  const std::lock_guard<std::mutex> lock(op.communicator->mutex);
  const void* send = op.send;
  ExchangeCall call = CallOf(op, sequence);
  if (op.gathered != nullptr) {
    send = op.gathered;
    if (op.communicator->absent.BeforeGathering(&call, send, op.recv, memory)) {
      return ncclSuccess;
    }
  } else {
    op.communicator->absent.BeforeCollective(op.operation, &call, &send, op.recv, memory);
  }
  const ExchangeStatus status = exchange.Collective(op.operation, call, send, op.recv);
  return status.ok() ? ncclSuccess : Fail(op.communicator, status);
}

std::optional<ncclResult_t> CollectiveExchange::Run(Patience patience) {
  Exchange exchange(SharedArena(), memory_);
  const ExchangeCall call = CallOf(op_, sequence_);
  ExchangeStatus status;
  if (!number_) {
    status = exchange.Announce(op_.operation, call, &number_.emplace());
  }
  if (status.ok()) {
    status = exchange.WaitForOthers(op_.operation, call, *number_, patience);
  }
  if (status.code == ExchangeCode::kLate) {
    return std::nullopt;
  }
  return status.ok() ? ExchangeCollective(op_, sequence_, memory_) : Fail(op_.communicator, status);
}

// Not under the communicators' locks: two threads may send and receive on one communicator at a
// time, each direction of a pair is used by only one thread.
ncclResult_t ExchangeTransfers(std::span<const NcclOp> ops, Memory* memory) {
  TransfersExchange exchange({ops.begin(), ops.end()}, memory);
  return *exchange.Run(Patience::kLong);
}

TransfersExchange::TransfersExchange(std::vector<NcclOp> ops, Memory* memory)
    : ops_(std::move(ops)), memory_(memory) {
}

std::optional<ncclResult_t> TransfersExchange::Run(Patience patience) {
  if (run_ == nullptr) {
    std::vector<MemberTransfer> transfers;
    for (const NcclOp& op : ops_) {
      const bool is_send = op.operation == ExchangeOperation::kSend;
      transfers.push_back(
          {&op.communicator->absent,
           is_send,
           {CallOf(op, 0), is_send ? op.send : nullptr, is_send ? nullptr : op.recv}});
    }
    run_ = std::make_unique<TransferRun>(SharedArena(), memory_, RunWithAbsent(transfers, memory_));
  }
  const ExchangeStatus status = run_->Run(patience);
  if (status.code == ExchangeCode::kLate) {
    return std::nullopt;
  }
  return status.ok() ? ncclSuccess : Fail(ops_.front().communicator, status);
}

}  // namespace prism::shim
