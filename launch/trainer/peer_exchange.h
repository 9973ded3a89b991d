// Activations and their gradients between neighbouring pipeline stages, as Megatron's
// batch_isend_irecv: everything sent and received at one point of the schedule is one NCCL group.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/args.h"
#include "launch/trainer/parallel_groups.h"

namespace prism::launch {

// What to transfer: an undefined tensor is not sent. The stages form a ring (interleaved schedule).
struct Exchange {
  at::Tensor to_previous = {};
  at::Tensor to_next = {};
  bool from_previous = false;
  bool from_next = false;
};

struct Received {
  at::Tensor from_previous;
  at::Tensor from_next;
};

class PeerExchange {
 public:
  // `config` and `group` (the pipeline group) outlive the object.
  PeerExchange(const WorkloadConfig& config, const Group& group);

  // The current stream waits for its end; does nothing if there is nothing to transfer.
  Received Run(const Exchange& exchange) const;

 private:
  [[nodiscard]] at::Tensor NewActivation() const;

  const Group& group_;
  std::vector<int64_t> shape_;  // [sequence / cp (/ tp), micro-batch, hidden]
  at::TensorOptions options_;
};

}  // namespace prism::launch
