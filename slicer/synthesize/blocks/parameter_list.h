// Hands out the parameters of a unit in declaration order, to the parts that write their kernels.
#pragma once

#include <cstdint>
#include <utility>

#include "graph/job/unit_parameters.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/norm.h"

namespace prism::slicer {

class ParameterList {
 public:
  explicit ParameterList(graph::UnitParameters parameters) : all_(std::move(parameters)) {}

  [[nodiscard]] const graph::UnitParameters& all() const { return all_; }

  // The next weight with its bias, if it has one.
  Norm TakeNorm() {
    const uint32_t weight = Take();
    return {.width = all_[weight].outputs, .weight = weight};
  }
  Linear TakeLinear() {
    const uint32_t weight = Take();
    return {.inputs = all_[weight].inputs,
            .outputs = all_[weight].outputs,
            .bias = next_ > weight + 1,
            .weight = weight};
  }

 private:
  uint32_t Take() {
    const uint32_t weight = next_++;
    next_ += next_ < all_.size() && all_[next_].bias ? 1 : 0;
    return weight;
  }

  graph::UnitParameters all_;
  uint32_t next_ = 0;
};

}  // namespace prism::slicer
