#include "replayer/memory/allocator_config.h"

#include <algorithm>
#include <bit>

#include "graph/base/divide.h"

namespace prism::replayer {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

int Log2(int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(value))) - 1;
}

}  // namespace

int64_t AllocatorConfig::RoundSize(int64_t bytes) const {
  if (bytes < kMinBlockBytes) {
    return kMinBlockBytes;
  }
  const int interval = std::clamp(Log2(bytes) - Log2(kMebibyte), 0, 15);
  const int64_t divisions = power2_divisions[static_cast<size_t>(interval)];
  if (divisions <= 1 || bytes <= kMinBlockBytes * divisions) {
    return RoundUp(bytes, kMinBlockBytes);
  }
  const int64_t floor = int64_t{1} << static_cast<unsigned>(Log2(bytes));
  if (bytes == floor) {
    return bytes;
  }
  const int64_t division = floor / divisions;
  return division == 0 ? 2 * floor : RoundUp(bytes, division);
}

int64_t AllocatorConfig::SegmentSize(int64_t rounded_bytes) const {
  if (rounded_bytes <= kSmallBytes) {
    return kSmallSegmentBytes;
  }
  if (rounded_bytes < kMinLargeBytes) {
    return large_segment_bytes;
  }
  return RoundUp(rounded_bytes, kRoundLargeBytes);
}

}  // namespace prism::replayer
