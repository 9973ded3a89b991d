#include "graph/job/flat_buckets.h"

#include <algorithm>
#include <numeric>

#include "graph/base/divide.h"

namespace prism::graph {
namespace {

constexpr int64_t kShardAlignment = 128;  // elements

}  // namespace

int64_t FullBucketElements(const TrainingStyle& style, int64_t ranks) {
  return std::max(style.bucket_elements, style.bucket_elements_per_rank * ranks);
}

TrainingStyle BucketStyle(TrainingStyle style, bool shard_gradients) {
  if (shard_gradients) {
    style.bucket_elements_per_rank = 0;
  }
  return style;
}

int64_t PaddedShard(std::span<const int64_t> sizes, int64_t ranks) {
  const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  return RoundUp(elements, kShardAlignment * ranks) / ranks;
}

FlatBuckets::Place FlatBuckets::Append(int64_t elements) {
  const Place place = {elements_, buckets_.size()};
  elements_ += elements;
  is_open_ = true;
  if (elements_ - open_begin_ >= full_elements_) {
    Close();
  }
  return place;
}

void FlatBuckets::Finish() {
  if (is_open_) {
    Close();
  }
}

void FlatBuckets::Close() {
  elements_ = open_begin_ + RoundUp(elements_ - open_begin_, kShardAlignment * ranks_);
  buckets_.push_back({open_begin_, elements_});
  open_begin_ = elements_;
  is_open_ = false;
}

}  // namespace prism::graph
