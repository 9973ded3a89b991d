// The NCCL id of a group whose root does not run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/fnv.h"

namespace prism::launch {

inline constexpr size_t kUniqueIdBytes = 128;  // sizeof(ncclUniqueId)

// A hash of the store's key, stretched to the length of an id. Equal keys give equal ids
// everywhere.
inline std::string UniqueIdFromKey(std::string_view key) {
  uint64_t hash = FnvHash(key);
  std::string id(kUniqueIdBytes, '\0');
  for (size_t i = 0; i < id.size(); ++i) {
    hash = FnvByte(static_cast<uint8_t>(i), hash);
    id[i] = static_cast<char>(hash >> 56U);
  }
  return id;
}

}  // namespace prism::launch
