#include "graph/base/compress.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <zlib.h>
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
        fmt::format("{} bytes when decompressed; at most {} are allowed", claimed, max_bytes));
  }
  std::string bytes(static_cast<size_t>(claimed), '\0');
  const size_t size =
      ZSTD_decompress(bytes.data(), bytes.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0 || size != bytes.size()) {
    return BadFile(fmt::format("cannot be decompressed: {}", ZSTD_isError(size) != 0
                                                                 ? ZSTD_getErrorName(size)
                                                                 : "shorter than it says"));
  }
  return bytes;
}

bool IsGzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

Result<std::string> Gunzip(std::string_view compressed, size_t max_bytes) {
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  constexpr size_t kFirstGuess = size_t{1} << 16U;
  z_stream stream = {};
  PRISM_CHECK_EQ(inflateInit2(&stream, kGzipOnly), Z_OK);
  std::string bytes;
  size_t size = 0;
  int state = Z_OK;
  size_t taken = 0;
  while (state == Z_OK && size <= max_bytes) {
    if (size == bytes.size()) {
      bytes.resize(std::min(std::max(kFirstGuess, 2 * size), max_bytes + 1));
    }
    constexpr size_t kMaxAtOnce = std::numeric_limits<uInt>::max();
    const size_t in = std::min(compressed.size() - taken, kMaxAtOnce);
    const size_t room = std::min(bytes.size() - size, kMaxAtOnce);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data() + taken));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + size);
    stream.avail_out = static_cast<uInt>(room);
    state = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    size += room - stream.avail_out;
    if (state == Z_STREAM_END && taken < compressed.size()) {
      state = inflateReset(&stream);  // another member
    }
  }
  inflateEnd(&stream);
  if (size > max_bytes) {
    return BadFile(fmt::format("more than {} bytes when decompressed", max_bytes));
  }
  if (state != Z_STREAM_END) {
    return BadFile(state == Z_BUF_ERROR ? "gzip data that ends too early" : "damaged gzip data");
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace prism
