// Group start and end: what a thread has called since the outermost ncclGroupStart, carried out
// together at the outermost ncclGroupEnd. A call outside a group is a group of one.
//
// To carry out a group, buffers that a real NCCL would allocate now are accounted, then the records
// of all ops are sent (collectives in order of issue, then one peer group per stream), then values
// move (device_values.h). Records go first, because moving values may wait for other sandbox ranks
// whose progress depends on what this rank has issued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "graph/program/op.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/exchange.h"
#include "shim/nccl/nccl_api.h"

namespace prism::shim {

struct HeldCapture;

// One collective, send or receive as it was called. `count` as in ExchangeCall.
struct NcclOp {
  Communicator* communicator = nullptr;
  ExchangeOperation operation = ExchangeOperation::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  Element element = Element::kUint8;
  int reduction = -1;             // ncclRedOp_t; -1 none
  ScaledSum scaled = {};          // of a program-defined reduction, as it was at the call
  int32_t root = -1;              // or the peer
  cudaStream_t stream = nullptr;  // as given; for what a graph launches: the recorded one
  uint32_t hold_stream = 0;       // NcclStream (device_values.h)
  std::shared_ptr<HeldCapture> captured = nullptr;  // on a real device, for what a graph launches
  // Of a broadcast in a group of one per root, which is an all_gather: what this rank contributes.
  const void* gathered = nullptr;
};

inline bool IsTransfer(const NcclOp& op) {
  return op.operation == ExchangeOperation::kSend || op.operation == ExchangeOperation::kRecv;
}

// Blocks of `count` elements that an op reads from its send buffer, and writes to the other.
struct Blocks {
  int32_t read = 1;
  int32_t written = 1;
};
Blocks BlocksOf(const NcclOp& op);

// Only for collectives, not for sends and receives.
graph::CollectiveKind CollectiveKindOf(ExchangeOperation operation);

ncclResult_t StartGroup();
ncclResult_t EndGroup();

// Appends the op to the open group of this thread, or carries it out.
ncclResult_t Submit(NcclOp op);

// The message of the last failure in this process, for ncclGetLastError; and the function that sets
// it, which returns `code`.
const char* LastError();
ncclResult_t SetLastError(ncclResult_t code, const char* message);

}  // namespace prism::shim
