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

// What gzip data says at its end that it holds, modulo 2^32; nothing is sure.
size_t StatedSize(std::string_view compressed) {
  size_t size = 0;
  for (size_t i = 0; i < std::min<size_t>(compressed.size(), 4); ++i) {
    size = size << 8U | static_cast<unsigned char>(compressed[compressed.size() - 1 - i]);
  }
  return size;
}

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
  constexpr size_t kBlock = size_t{1} << 20U;
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
    return EnvironmentLacks("not enough memory to decompress");
  }
  const bool by_ratio = max_bytes > kFreeGzipBytes + compressed.size() * kMostGzipRatio;
  max_bytes = by_ratio ? kFreeGzipBytes + compressed.size() * kMostGzipRatio : max_bytes;
  std::string bytes;
  bytes.reserve(std::min(StatedSize(compressed), max_bytes) + 1);
  size_t size = 0;
  int state = Z_OK;
  size_t taken = 0;
  while (state == Z_OK && size <= max_bytes) {
    if (size == bytes.size()) {
      bytes.resize(std::min(size + kBlock, max_bytes + 1));
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
    const bool ends = compressed.find_first_not_of('\0', taken) == std::string_view::npos;
    if (state == Z_STREAM_END && !ends) {
      state = inflateReset(&stream);  // another member
    }
  }
  inflateEnd(&stream);
  if (size > max_bytes) {
    return BadFile(fmt::format("more than {} bytes when decompressed{}", max_bytes,
                               by_ratio ? fmt::format(", {} times its size", kMostGzipRatio) : ""));
  }
  if (state != Z_STREAM_END) {
    return BadFile(state == Z_BUF_ERROR ? "gzip data that ends too early" : "damaged gzip data");
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace prism
