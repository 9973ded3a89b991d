// Flat buffers of parameters or of their gradients, cut into the buckets that data parallelism
// reduces one by one, as Megatron's ParamAndGradBuffer does
// (core/distributed/param_and_grad_buffer.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/job/training_style.h"

namespace prism::graph {

// Number of elements at which a bucket is full.
int64_t FullBucketElements(const TrainingStyle& style, int64_t ranks);

// The style of buckets of ranks that keep gradients of no more than their shards
// (`shard_gradients`: ZeRO 2 of the built-in program): as many elements for any number of ranks,
// because a rank holds whole gradients of a bucket at a time. Else that of `style`.
TrainingStyle BucketStyle(TrainingStyle style, bool shard_gradients);

// Elements of a rank's equal part of parameters of these sizes, laid out one after the other and
// padded as a bucket is.
int64_t PaddedShard(std::span<const int64_t> sizes, int64_t ranks);

// Lays parameters out one after the other. A bucket ends with the parameter that fills it, and is
// padded so that every rank of the group has a shard of equal size, aligned to 128 elements.
class FlatBuckets {
 public:
  struct Bucket {
    int64_t begin = 0;  // elements of the buffer
    int64_t end = 0;    // padding included

    [[nodiscard]] int64_t elements() const { return end - begin; }
  };

  struct Place {
    int64_t begin = 0;  // elements of the buffer
    size_t bucket = 0;
  };

  // `ranks`: size of the group that the buckets are reduced over.
  FlatBuckets(const TrainingStyle& style, int64_t ranks)
      : full_elements_(FullBucketElements(style, ranks)), ranks_(ranks) {}

  // Parameters may have no elements (where a size is 0); a bucket of such parameters has none.
  Place Append(int64_t elements);

  // Call after the last parameter: ends the open bucket.
  void Finish();

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  // Of the buffer so far.
  [[nodiscard]] int64_t elements() const { return elements_; }

 private:
  void Close();

  int64_t full_elements_;
  int64_t ranks_;
  int64_t open_begin_ = 0;
  int64_t elements_ = 0;
  bool is_open_ = false;  // something was appended since the last bucket ended
  std::vector<Bucket> buckets_;
};

}  // namespace prism::graph
