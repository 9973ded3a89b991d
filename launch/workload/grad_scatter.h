// Gradients of a micro-batch on their way to the ranks that own them, where those keep no more than
// their shards (ZeRO 2 and 3): the mean over the replicas is reduce-scattered beside the backward
// pass and then added to the shard.
//
// One transfer at a time is on its way. The next one to start first waits for it, and so does the
// end of the backward pass: no more than two buckets of whole gradients are there at once. FSDP2
// (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce) and DeepSpeed's
// overlapped ZeRO 2 do the same.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "launch/workload/parallel_groups.h"

namespace prism::launch {

class GradScatter {
 public:
  // Sends off gradients, float32, equal parts of which belong to the ranks of `replicas`: their sum
  // is what arrives, in memory of its own. It is for `shards`, one after the other. The caller
  // hands on its only reference to `whole`; nothing else is on its way.
  void Start(const Group& replicas, at::Tensor whole, std::vector<at::Tensor> shards);

  // Adds what is on its way, if anything is, to its shards.
  void Finish();

 private:
  Handle handle_;
  at::Tensor whole_;
  at::Tensor arrived_;
  std::vector<at::Tensor> shards_;
};

}  // namespace prism::launch
