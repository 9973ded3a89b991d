// Tensors that are all there at one time and are freed before anything else is allocated: they
// leave an allocator's free blocks as they were.
//
// So they need not be placed, as long as none of them needs memory of the device: all that remains
// of them is the peak that they reach (MemoryAccount::Pass).
#pragma once

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
    if (bytes > 0) {
      rounded_.push_back(config.RoundSize(bytes));
    }
  }

  // Sizes that serve them.
  [[nodiscard]] const std::vector<int64_t>& rounded() const { return rounded_; }

 private:
  std::vector<int64_t> rounded_;
};

}  // namespace prism::replayer
