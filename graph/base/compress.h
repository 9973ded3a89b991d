// Zstandard on whole buffers.
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

}  // namespace prism
