#include "shim/nccl/value_policy.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "shim/cuda/memory.h"
#include "shim/session.h"

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
  const ScaledSum& sum =
      op.communicator->scaled_sums[static_cast<size_t>(op.reduction - ncclNumOps)];
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
  return call;
}

ExchangeStatus Run(Exchange* exchange, const NcclOp& op, const ExchangeCall& call) {
  switch (op.operation) {
    case ExchangeOperation::kAllReduce:
      return exchange->AllReduce(call, op.send, op.recv);
    case ExchangeOperation::kReduce:
      return exchange->Reduce(call, op.send, op.recv);
    case ExchangeOperation::kAllGather:
      return exchange->AllGather(call, op.send, op.recv);
    case ExchangeOperation::kReduceScatter:
      return exchange->ReduceScatter(call, op.send, op.recv);
    case ExchangeOperation::kBroadcast:
      return exchange->Broadcast(call, op.send, op.recv);
    case ExchangeOperation::kAllToAll:
      return exchange->AllToAll(call, op.send, op.recv);
    case ExchangeOperation::kGather:
      return exchange->Gather(call, op.send, op.recv);
    case ExchangeOperation::kScatter:
      return exchange->Scatter(call, op.send, op.recv);
    case ExchangeOperation::kBarrier:
    case ExchangeOperation::kSend:
    case ExchangeOperation::kRecv:
      break;
  }
  return exchange->Barrier(call);
}

// A failed exchange cannot be repaired: the communicator stays in error, as after a lost peer.
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
  NcclOp moved = op;
  ExchangeCall call = CallOf(op, sequence);
  op.communicator->absent.BeforeCollective(op.operation, &call, &moved.send, op.recv, memory);
  const ExchangeStatus status = Run(&exchange, moved, call);
  return status.ok() ? ncclSuccess : Fail(op.communicator, status);
}

// Not under the communicators' locks: two threads may send and receive on one communicator at a
// time, each direction of a pair is used by one thread.
ncclResult_t ExchangeTransfers(std::span<const NcclOp> ops, Memory* memory) {
  std::vector<ExchangeTransfer> transfers;
  // Sends first: what comes back from an absent peer may be taken from them.
  for (const ExchangeOperation direction : {ExchangeOperation::kSend, ExchangeOperation::kRecv}) {
    for (const NcclOp& op : ops) {
      if (op.operation == direction && !op.communicator->IsPresent(op.root)) {
        const ExchangeCall call = CallOf(op, 0);
        direction == ExchangeOperation::kSend
            ? op.communicator->absent.Send(call, op.send, memory)
            : op.communicator->absent.Receive(call, op.recv, memory);
      }
    }
  }
  for (const NcclOp& op : ops) {
    if (op.communicator->IsPresent(op.root)) {
      const bool is_send = op.operation == ExchangeOperation::kSend;
      transfers.push_back({CallOf(op, 0), is_send ? op.send : nullptr, op.recv});
    }
  }
  Exchange exchange(SharedArena(), memory);
  const ExchangeStatus status = exchange.Transfers(transfers);
  return status.ok() ? ncclSuccess : Fail(ops.front().communicator, status);
}

}  // namespace prism::shim
