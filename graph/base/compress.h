// Zstandard on whole buffers, and what other programs packed, which can only be read.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism {

// The same input always gives the same bytes (one thread, fixed level).
std::string Compress(std::string_view bytes);

// Never allocates more than `max_bytes`, whatever the input claims. kBadFile when the input is not
// one complete zstd frame, or holds more.
Result<std::string> Decompress(std::string_view compressed, size_t max_bytes);

// Whether other programs packed the bytes, as gzip or zstd.
[[nodiscard]] bool IsPacked(std::string_view bytes);

// A file may hold that many times its size, beyond a first part that is free: no trace comes near.
inline constexpr size_t kMostUnpackRatio = 200;
inline constexpr size_t kFreeUnpackedBytes = size_t{64} << 20U;

// Unpacks all members of the file; zeros may follow. kBadFile when the input is damaged or holds
// more than `max_bytes` or than the ratio allows, or ends too early, which `ends_early` takes
// instead if it is given: what came before is there. Takes little more memory than what it holds if
// it says how much that is, else at most twice as much.
Result<std::string> Unpack(std::string_view packed, size_t max_bytes, bool* ends_early = nullptr);

// The same a piece at a time, in the memory of one. Data that ends too early is all there is.
class UnpackedPieces {
 public:
  UnpackedPieces(std::string_view packed, size_t max_bytes);
  UnpackedPieces(UnpackedPieces&&) noexcept;
  ~UnpackedPieces();

  // Valid until the next call; empty at the end, and after an error.
  std::string_view Next();
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] bool ends_early() const { return ends_early_; }

  class Method;

 private:
  std::unique_ptr<Method> method_;
  std::string_view packed_;
  size_t left_;  // bytes that it may still hold
  std::string piece_;
  Status status_;
  std::string too_large_;
  bool is_done_ = false;
  bool ends_early_ = false;
};

}  // namespace prism
