// Sizes, durations and counts as people write and read them. Everything inside the program is a
// plain int64 of bytes or nanoseconds; these functions stand at the edges (options, presets,
// reports). None depends on the locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "graph/base/time.h"

namespace prism {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// "80GiB", "1.5 MiB", "512KB" (decimal), "4096" or "4096B" → bytes, rounded to the nearest byte.
// kInvalidArgument for anything else, negative numbers and what exceeds int64 included.
Result<int64_t> ParseBytes(std::string_view text);

// Binary unit with at most two decimals and no needless zeros: "80 GiB", "79.65 GiB", "512 B".
std::string FormatBytes(int64_t bytes);

// Four significant digits in s, ms, us or ns: "4.213 s", "12.5 ms", "850 ns".
std::string FormatDuration(DurationNs duration);

// Digits in groups of three: "8,192".
std::string FormatCount(int64_t count);

// "1 role", "8,192 ranks", "2 batches": a count with its noun, which takes an s unless it is one.
std::string FormatCounted(int64_t count, std::string_view noun);

// Four significant digits with k, M, G, T, P: "329 M", "14.6 k", "128".
std::string FormatApproximate(double count);

}  // namespace prism
