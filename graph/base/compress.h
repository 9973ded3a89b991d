// Zstandard on whole buffers. Gzip, which other programs write, can only be read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism {

// The same input always gives the same bytes (one thread, fixed level).
std::string Compress(std::string_view bytes);

// Never allocates more than `max_bytes`, whatever the input claims. kBadFile when the input is not
// one complete zstd frame, or holds more.
Result<std::string> Decompress(std::string_view compressed, size_t max_bytes);

[[nodiscard]] bool IsGzip(std::string_view bytes);

// A file may hold that many times its size, beyond a first part that is free: no trace comes near.
inline constexpr size_t kMostGzipRatio = 200;
inline constexpr size_t kFreeGzipBytes = size_t{64} << 20U;

// Decompresses gzip, all members of the file; zeros may follow. kBadFile when the input is damaged
// or holds more than `max_bytes` or than the ratio allows; takes little more memory than what it
// holds if it says how much that is, else at most twice as much.
Result<std::string> Gunzip(std::string_view compressed, size_t max_bytes);

}  // namespace prism
