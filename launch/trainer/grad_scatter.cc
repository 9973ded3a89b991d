#include "launch/trainer/grad_scatter.h"

#include <utility>

namespace prism::launch {

void GradScatter::Start(const Group& replicas, at::Tensor whole, std::vector<at::Tensor> shards) {
  arrived_ = at::empty({whole.numel() / replicas.size()}, whole.options());
  handle_ = StartReduceScatter(replicas, arrived_, whole);
  whole_ = std::move(whole);
  shards_ = std::move(shards);
}

void GradScatter::Finish() {
  if (shards_.empty()) {
    return;
  }
  Wait(handle_);
  handle_ = nullptr;
  int64_t begin = 0;
  for (at::Tensor& shard : shards_) {
    shard.add_(arrived_.narrow(0, begin, shard.numel()));
    begin += shard.numel();
  }
  shards_.clear();
  whole_ = arrived_ = at::Tensor();
}

}  // namespace prism::launch
