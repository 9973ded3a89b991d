#include "graph/base/compress.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "graph/base/check.h"

namespace prism {
namespace {

// Level 9 against 3 on role programs: a tenth smaller, and chunks are small enough that it does not
// show in the time of a run.
constexpr int kLevel = 9;

constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";

// What data says that it holds: gzip at its end, modulo 2^32, zstd perhaps; nothing is sure.
size_t StatedSize(std::string_view packed) {
  if (packed.starts_with(kZstd)) {
    const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
    return size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ? 0 : size;
  }
  size_t size = 0;
  for (size_t i = 0; i < std::min<size_t>(packed.size(), 4); ++i) {
    size = size << 8U | static_cast<unsigned char>(packed[packed.size() - 1 - i]);
  }
  return size;
}

enum class UnpackState : uint8_t { kGoesOn, kEnds, kLacksInput, kIsDamaged };

}  // namespace

// Takes bytes off the front of `in` and of the room `out`.
class UnpackedPieces::Method {
 public:
  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  virtual ~Method() = default;

  virtual bool is_ready() = 0;
  virtual UnpackState Step(std::string_view* in, std::span<char>* out) = 0;
};

namespace {

class GzipUnpacker : public UnpackedPieces::Method {
 public:
  GzipUnpacker() { is_ready_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK; }
  ~GzipUnpacker() override { inflateEnd(&stream_); }

  bool is_ready() override { return is_ready_; }

  UnpackState Step(std::string_view* in, std::span<char>* out) override {
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in->data()));
    stream_.avail_in = static_cast<uInt>(std::min(in->size(), kMost));
    stream_.next_out = reinterpret_cast<Bytef*>(out->data());
    stream_.avail_out = static_cast<uInt>(std::min(out->size(), kMost));
    const int state = inflate(&stream_, Z_NO_FLUSH);
    in->remove_prefix(static_cast<size_t>(reinterpret_cast<char*>(stream_.next_in) - in->data()));
    *out =
        out->subspan(static_cast<size_t>(reinterpret_cast<char*>(stream_.next_out) - out->data()));
    if (state == Z_STREAM_END) {
      inflateReset(&stream_);  // for another member
    }
    return state == Z_OK           ? UnpackState::kGoesOn
           : state == Z_STREAM_END ? UnpackState::kEnds
           : state == Z_BUF_ERROR  ? UnpackState::kLacksInput
                                   : UnpackState::kIsDamaged;
  }

 private:
  z_stream stream_ = {};
  bool is_ready_ = false;
};

class ZstdUnpacker : public UnpackedPieces::Method {
 public:
  bool is_ready() override { return context_ != nullptr; }

  UnpackState Step(std::string_view* in, std::span<char>* out) override {
    ZSTD_inBuffer input = {in->data(), in->size(), 0};
    ZSTD_outBuffer output = {out->data(), out->size(), 0};
    const size_t left = ZSTD_decompressStream(context_.get(), &output, &input);
    in->remove_prefix(input.pos);
    *out = out->subspan(output.pos);
    return ZSTD_isError(left) != 0        ? UnpackState::kIsDamaged
           : left == 0                    ? UnpackState::kEnds
           : in->empty() && !out->empty() ? UnpackState::kLacksInput
                                          : UnpackState::kGoesOn;
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_{ZSTD_createDCtx()};
};

}  // namespace

UnpackedPieces::UnpackedPieces(std::string_view packed, size_t max_bytes) : packed_(packed) {
  const size_t by_ratio = kFreeUnpackedBytes + packed.size() * kMostUnpackRatio;
  left_ = std::min(max_bytes, by_ratio);
  too_large_ =
      fmt::format("more than {} bytes when decompressed{}", left_,
                  by_ratio < max_bytes ? fmt::format(", {} times its size", kMostUnpackRatio) : "");
  if (packed.starts_with(kZstd)) {
    method_ = std::make_unique<ZstdUnpacker>();
  } else {
    method_ = std::make_unique<GzipUnpacker>();
  }
  if (!method_->is_ready()) {
    status_ = EnvironmentLacks("not enough memory to decompress");
    is_done_ = true;
  }
}

UnpackedPieces::UnpackedPieces(UnpackedPieces&&) noexcept = default;

UnpackedPieces::~UnpackedPieces() = default;

std::string_view UnpackedPieces::Next() {
  constexpr size_t kPiece = size_t{1} << 20U;
  if (is_done_) {
    return {};
  }
  piece_.resize(kPiece);
  std::span<char> room(piece_.data(), piece_.size());
  UnpackState state = UnpackState::kGoesOn;
  while (state == UnpackState::kGoesOn && !room.empty()) {
    state = method_->Step(&packed_, &room);
    if (state == UnpackState::kEnds && packed_.find_first_not_of('\0') != std::string_view::npos) {
      state = UnpackState::kGoesOn;  // another member
    }
  }
  const size_t size = piece_.size() - room.size();
  is_done_ = state != UnpackState::kGoesOn || size > left_;
  if (size > left_) {
    status_ = BadFile(too_large_);
  } else if (state == UnpackState::kIsDamaged) {
    status_ = BadFile("damaged compressed data");
  }
  ends_early_ = state == UnpackState::kLacksInput;
  left_ -= std::min(size, left_);
  return status_.ok() ? std::string_view(piece_).substr(0, size) : std::string_view();
}

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

bool IsPacked(std::string_view bytes) {
  return bytes.starts_with(kGzip) || bytes.starts_with(kZstd);
}

Result<std::string> Unpack(std::string_view packed, size_t max_bytes, bool* ends_early) {
  UnpackedPieces pieces(packed, max_bytes);
  std::string bytes;
  bytes.reserve(std::min(
      {StatedSize(packed), max_bytes, kFreeUnpackedBytes + packed.size() * kMostUnpackRatio}));
  for (std::string_view piece = pieces.Next(); !piece.empty(); piece = pieces.Next()) {
    bytes += piece;
  }
  PRISM_RETURN_IF_ERROR(pieces.status());
  if (pieces.ends_early() && ends_early == nullptr) {
    return BadFile("compressed data that ends too early");
  }
  if (ends_early != nullptr) {
    *ends_early = pieces.ends_early();
  }
  return bytes;
}

}  // namespace prism
