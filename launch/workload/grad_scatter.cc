#include "launch/workload/grad_scatter.h"

#include <utility>

namespace prism::launch {

void GradScatter::Start(const Group& replicas, at::Tensor whole, at::Tensor shard) {
  Finish();
  whole.mul_(1.0 / groups_.dp.size());
  arrived_ = at::empty_like(shard);
  handle_ = StartReduceScatter(replicas, arrived_, whole);
  whole_ = std::move(whole);
  shard_ = std::move(shard);
}

void GradScatter::Finish() {
  if (!shard_.defined()) {
    return;
  }
  Wait(handle_);
  handle_ = nullptr;
  shard_.add_(arrived_);
  whole_ = arrived_ = shard_ = at::Tensor();
}

}  // namespace prism::launch
