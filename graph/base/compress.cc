#include "graph/base/compress.h"

#include <fmt/format.h>
#include <zstd.h>

#include "graph/base/check.h"

namespace prism {
namespace {

// Level 9 against 3 on role programs: a tenth smaller, and chunks are small enough that it does not
// show in the time of a run.
constexpr int kLevel = 9;

}  // namespace

std::string Compress(std::string_view bytes) {
  std::string compressed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(compressed.data(), compressed.size(), bytes.data(), bytes.size(), kLevel);
  PRISM_CHECK_MSG(ZSTD_isError(size) == 0, ZSTD_getErrorName(size));
  compressed.resize(size);
  return compressed;
}

Result<std::string> Decompress(std::string_view compressed, size_t max_bytes) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN) {
    return BadFile("not a zstd frame of known size");
  }
  if (claimed > max_bytes) {
    return BadFile(
        fmt::format("{} bytes when decompressed, at most {} are allowed", claimed, max_bytes));
  }
  std::string bytes(static_cast<size_t>(claimed), '\0');
  const size_t size =
      ZSTD_decompress(bytes.data(), bytes.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0 || size != bytes.size()) {
    return BadFile(fmt::format("cannot be decompressed: {}", ZSTD_isError(size) != 0
                                                                 ? ZSTD_getErrorName(size)
                                                                 : "shorter than it claims"));
  }
  return bytes;
}

}  // namespace prism
