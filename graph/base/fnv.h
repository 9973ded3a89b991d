// FNV-1a (Fowler, Noll, Vo), 64 bits: a hash of a few bytes that every process and the shim can
// compute, since it needs no library. graph/base/hash.h is for files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace prism {

inline constexpr uint64_t kFnvSeed = 0xCBF29CE484222325U;

// `seed` with one more byte.
constexpr uint64_t FnvByte(uint8_t byte, uint64_t seed) {
  return (seed ^ byte) * 0x100000001B3U;
}

// `seed`: kFnvSeed, or the hash of the bytes before.
constexpr uint64_t FnvHash(std::string_view bytes, uint64_t seed = kFnvSeed) {
  for (const char byte : bytes) {
    seed = FnvByte(static_cast<uint8_t>(byte), seed);
  }
  return seed;
}

inline uint64_t FnvBytes(const void* data, size_t bytes, uint64_t seed = kFnvSeed) {
  return FnvHash(std::string_view(static_cast<const char*>(data), bytes), seed);
}

}  // namespace prism
