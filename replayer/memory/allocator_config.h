// Settings of torch's caching allocator (PYTORCH_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF before 2.9)
// and the two roundings that depend on them. Sizes in bytes.
//
// Constants and rules: c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.cpp of
// PyTorch 2.11.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "graph/base/status.h"

namespace prism::replayer {

inline constexpr int64_t kMinBlockBytes = 512;                   // block sizes are multiples
inline constexpr int64_t kSmallBytes = int64_t{1} << 20;         // largest size of the small pool
inline constexpr int64_t kSmallSegmentBytes = 2 * kSmallBytes;   // segment or page, small pool
inline constexpr int64_t kLargeSegmentBytes = 20 * kSmallBytes;  // segment or page, large pool
inline constexpr int64_t kMinLargeBytes = 10 * kSmallBytes;      // from here sized by the request
inline constexpr int64_t kRoundLargeBytes = 2 * kSmallBytes;     // to a multiple of this
inline constexpr int64_t kUnlimitedBytes = std::numeric_limits<int64_t>::max();

struct AllocatorConfig {
  bool expandable_segments = false;
  int64_t max_split_bytes = kUnlimitedBytes;  // blocks of this size or more are not split
  int64_t max_non_split_rounding_bytes = kLargeSegmentBytes;
  int64_t large_segment_bytes = kLargeSegmentBytes;
  double garbage_collection_threshold = 0;  // fraction of the memory limit; 0: never
  double memory_fraction = 1;               // fraction of the device; less than 1 sets a limit
  // Divisions between powers of two, by interval: [i] applies to 2^i MiB, the last one to all sizes
  // beyond.
  std::array<int64_t, 16> power2_divisions = {};

  // Size of the block that serves a request of `bytes` > 0.
  [[nodiscard]] int64_t RoundSize(int64_t bytes) const;

  // Size of the segment requested from the device for a rounded size (classic segments).
  [[nodiscard]] int64_t SegmentSize(int64_t rounded_bytes) const;

  bool operator==(const AllocatorConfig&) const = default;
};

// "max_split_size_mb:128,expandable_segments:True,roundup_power2_divisions:[256:1,>:4]". An option
// that torch knows but that changes no address (pinned_*, release_lock_on_cudamalloc, ...) is
// ignored; an unknown one, or backend:cudaMallocAsync, which is a different allocator, is refused
// with kInvalidArgument, as torch does.
Result<AllocatorConfig> ParseAllocatorConfig(std::string_view text);

}  // namespace prism::replayer
