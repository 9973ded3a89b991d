// A reduction of chunks that follow each other in memory, as the GPU's kernel does it
// (reduction_kernels.cu); tests run the same source on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/nccl/reduction_arithmetic.h"

namespace prism::shim {

// `contributions`: of members.present members in ascending order of rank, each `stride` bytes after
// the one before.
struct ReductionTask {
  const std::byte* contributions;
  std::byte* out;
  uint64_t stride;
  uint64_t count;  // elements of each
  Members members;
  Reduction reduction;
  Element element;
};

// Reduces its elements first, first + step, ...
PRISM_HOST_AND_DEVICE inline void RunReduction(const ReductionTask& task,
                                               uint64_t first,
                                               uint64_t step) {
  DispatchElement(task.element, [&](auto traits) {
    using Traits = decltype(traits);
    using Stored = typename Traits::Stored;
    auto* const out = reinterpret_cast<Stored*>(task.out);
    for (uint64_t i = first; i < task.count; i += step) {
      const auto stored = [&](int32_t member) {
        const auto offset = static_cast<uint64_t>(member) * task.stride;
        return reinterpret_cast<const Stored*>(task.contributions + offset)[i];
      };
      out[i] = CombineElement<Traits>(stored, task.members, task.reduction);
    }
  });
}

}  // namespace prism::shim
