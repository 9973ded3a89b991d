// Gradients of a micro-batch on their way to the ranks that own them, where those keep no more than
// their shards (ZeRO 2 and 3): the mean over the replicas is reduce-scattered beside the backward
// pass and then added to the shard.
//
// One transfer at a time is on its way. The next one to start first waits for it, and so does the
// end of the backward pass: no more than two buckets of whole gradients are there at once. FSDP2
// (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce) and DeepSpeed's
// overlapped ZeRO 2 do the same.
#pragma once

#include <ATen/ATen.h>

#include "launch/workload/parallel_groups.h"

namespace prism::launch {

class GradScatter {
 public:
  // `groups` outlives it.
  explicit GradScatter(const ParallelGroups& groups) : groups_(groups) {}

  // Sends off the sum over this rank's gradients `whole`, float32, equal parts of which belong to
  // the ranks of `replicas`. This rank's part arrives in memory of its own; the caller hands on its
  // only reference to `whole`. The mean is that over all replicas of the job, as GradBuffer's.
  void Start(const Group& replicas, at::Tensor whole, at::Tensor shard);

  // Adds what is on its way to its shard.
  void Finish();

 private:
  const ParallelGroups& groups_;
  Handle handle_;
  at::Tensor whole_;
  at::Tensor arrived_;
  at::Tensor shard_;
};

}  // namespace prism::launch
