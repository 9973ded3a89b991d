// Tensors that are all there at one time and are freed before anything else is allocated: they
// leave an allocator's free blocks as they were.
//
// So they need not be placed, as long as none of them needs memory of the device: all that remains
// of them is the peak that they reach (MemoryAccount::Pass).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "replayer/memory/allocator_config.h"
#include "replayer/memory/layer_tensors.h"

namespace prism::replayer {

class PassingTensors {
 public:
  PassingTensors() = default;

  PassingTensors(const std::vector<Tensor>& tensors, const AllocatorConfig& config) {
    for (const Tensor& tensor : tensors) {
      Add(tensor.bytes, config);
    }
  }

  void Add(int64_t bytes, const AllocatorConfig& config) {
    if (bytes <= 0) {
      return;
    }
    const int64_t rounded = config.RoundSize(bytes);
    const bool is_small = rounded <= kSmallBytes;
    rounded_.push_back(rounded);
    by_pool_[is_small ? 0 : 1] += rounded;
    most_bytes_ += rounded + (is_small ? 0 : kSmallBytes);
  }

  // Sizes that serve them.
  [[nodiscard]] const std::vector<int64_t>& rounded() const { return rounded_; }

  // The sums of those, by PoolKind.
  [[nodiscard]] const std::array<int64_t, 2>& by_pool() const { return by_pool_; }

  // Of their blocks at most: a rest of up to kSmallBytes is not cut off.
  [[nodiscard]] int64_t most_bytes() const { return most_bytes_; }

 private:
  std::vector<int64_t> rounded_;
  std::array<int64_t, 2> by_pool_ = {};
  int64_t most_bytes_ = 0;
};

}  // namespace prism::replayer
