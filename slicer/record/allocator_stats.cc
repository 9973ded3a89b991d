#include "slicer/record/allocator_stats.h"

#include <algorithm>

#include <fmt/format.h>

namespace prism::slicer {

void AllocatorStats::Push(const channel::AllocatorStatsBody& body,
                          int64_t allocated,
                          int64_t peak) {
  seen_ = true;
  peak_reserved_ = std::max(peak_reserved_, body.peak_reserved);
  if (body.allocated == allocated && body.peak_allocated <= peak) {
    return;
  }
  if (differs_++ == 0) {
    example_ = fmt::format(
        "the framework counts {} allocated bytes with a peak of {}, its blocks sum to {} and {}",
        body.allocated, body.peak_allocated, allocated, peak);
  }
}

}  // namespace prism::slicer
