// Transfer of a micro-batch's gradients to the ranks that own them, if those keep only their shards
// (ZeRO 2 and 3): the mean over the replicas is reduce-scattered during the backward pass and then
// added to the shard.
//
// Only one transfer is in flight at a time. The next one to start first waits for it, and so does
// the end of the backward pass: at most two buckets of whole gradients exist at once. FSDP2
// (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce) and DeepSpeed's
// overlapped ZeRO 2 do the same.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/parallel_groups.h"

namespace prism::launch {

class GradScatter {
 public:
  // Starts the reduce-scatter of float32 gradients, equal parts of which belong to the ranks of
  // `replicas`; the sum arrives in separate memory. It contains `shards`, one after the other. The
  // caller passes on its only reference to `whole`; no other transfer may be in flight.
  void Start(const Group& replicas, at::Tensor whole, std::vector<at::Tensor> shards);

  // Waits for the transfer in flight, if any, and adds it to its shards.
  void Finish();

 private:
  Handle handle_;
  at::Tensor whole_;
  at::Tensor arrived_;
  std::vector<at::Tensor> shards_;
};

}  // namespace prism::launch
