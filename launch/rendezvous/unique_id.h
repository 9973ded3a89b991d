// The NCCL id that a group gets where no root writes one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace prism::launch {

inline constexpr size_t kUniqueIdBytes = 128;  // sizeof(ncclUniqueId)

// FNV-1a of the store's key, stretched to the length of an id. Equal keys give equal ids
// everywhere.
inline std::string UniqueIdFromKey(std::string_view key) {
  constexpr uint64_t kPrime = 0x100000001B3U;
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char letter : key) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  }
  std::string id(kUniqueIdBytes, '\0');
  for (size_t i = 0; i < id.size(); ++i) {
    hash = (hash ^ i) * kPrime;
    id[i] = static_cast<char>(hash >> 56U);
  }
  return id;
}

}  // namespace prism::launch
