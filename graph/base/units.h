// Sizes, durations and counts as people read them. Everything inside the program is a plain int64
// of bytes or nanoseconds; these functions are used at the edge (reports). None depends on the
// locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/time.h"

namespace prism {

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
