// Maps between a GPU's global timer and the virtual time of the rank that runs on it.
#pragma once

#include <cmath>
#include <cstdint>

namespace prism::launch {

// virtual = anchor + scale × (gpu - anchor): `scale` is the target GPU's time relative to that of
// the local GPU. Times are nanoseconds.
class ClockMap {
 public:
  ClockMap(int64_t gpu_ns, int64_t virtual_ns, double scale)
      : gpu_ns_(gpu_ns), virtual_ns_(virtual_ns), scale_(scale) {}

  [[nodiscard]] int64_t ToVirtual(int64_t gpu_ns) const {
    return virtual_ns_ + std::llround(scale_ * static_cast<double>(gpu_ns - gpu_ns_));
  }

  // Rounds up: a deadline is never early.
  [[nodiscard]] int64_t ToGpu(int64_t virtual_ns) const {
    return gpu_ns_ +
           static_cast<int64_t>(std::ceil(static_cast<double>(virtual_ns - virtual_ns_) / scale_));
  }

  // From here on both clocks show these times. Used where a hold could not end when it should have
  // (its deadline became known too late): virtual time did not pass in between.
  void MoveAnchor(int64_t gpu_ns, int64_t virtual_ns) {
    gpu_ns_ = gpu_ns;
    virtual_ns_ = virtual_ns;
  }

 private:
  int64_t gpu_ns_;
  int64_t virtual_ns_;
  double scale_;
};

}  // namespace prism::launch
