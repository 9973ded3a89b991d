// Zstandard on whole buffers; gzip, which other programs write, only to be read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism {

// The same input always gives the same bytes (one thread, fixed level).
std::string Compress(std::string_view bytes);

// Never allocates more than `max_bytes`, whatever the input claims. kBadFile when the input is no
// whole zstd frame or holds more.
Result<std::string> Decompress(std::string_view compressed, size_t max_bytes);

[[nodiscard]] bool IsGzip(std::string_view bytes);

// What gzip packed, of all its members. kBadFile when the input is damaged or holds more than
// `max_bytes`; takes twice as much memory as what it holds at most.
Result<std::string> Gunzip(std::string_view compressed, size_t max_bytes);

}  // namespace prism
