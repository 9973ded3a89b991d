// What the methods of the replaced c10d::ProcessGroupGloo have in common: how a call on tensors
// becomes calls of the exchange.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "shim/nccl/exchange.h"
#include "shim/rendezvous/cpu_group.h"

namespace prism::shim {

// Data that is only moved: bytes, whatever the type.
CpuCall Moved(ExchangeOperation operation, size_t bytes, int64_t root = -1);

// Data that is combined. Throws c10::Error for types and reductions that gloo does not have.
CpuCall Reduced(ExchangeOperation operation,
                const at::Tensor& tensor,
                const c10d::ReduceOp& op,
                int64_t root = -1);

// Throws c10::Error unless the list has exactly one tensor, as gloo's methods require.
void CheckOne(const char* method, const std::vector<at::Tensor>& tensors);

// One collective in progress: its calls of the exchange carry its number.
struct Collective {
  const CpuGroup& group;
  uint64_t sequence;

  void Run(CpuCall call, const void* send, void* recv) const;
};

using CollectiveBody = std::function<void(const Collective&)>;

// For prism check: what is moved, as a note says it: bytes, and their type; -1: not known, or of no
// two members the same.
std::string SizeText(int64_t bytes, at::ScalarType type);

// For prism check: of this thread's next collective, if it is not that of its group.
void SetNextTimeout(std::chrono::milliseconds timeout);

// Numbers a collective, and runs its body when those before it in the group are done. `root`: its
// rank in the group, -1 for collectives without one.
c10::intrusive_ptr<c10d::Work> StartCollective(CpuGroup& group,
                                               c10d::OpType type,
                                               std::vector<at::Tensor> outputs,
                                               CollectiveBody body,
                                               int64_t root = -1);

}  // namespace prism::shim
