// What library_calls.txt says of a call, as generate_stubs.py packs it into a number.
#pragma once

#include <cstdint>
#include <cstring>

namespace prism::shim {

// As generate_stubs.py numbers them.
enum class LibraryAction : uint8_t {
  kDone,
  kCreate,
  kNumber,
  kDestroy,
  kStream,
  kRun,
  kWorkspace,
  kElements,
};

// Whose handle argument 0 is.
enum class HandleKind : uint8_t { kObject, kNumber, kBlas, kDnn };

inline constexpr uint8_t kNoArgument = 255;

// Action, two argument numbers and the kind of handle, a byte each.
struct LibraryCall {
  LibraryAction action;
  uint8_t first;
  uint8_t second;
  HandleKind handle;
};

inline LibraryCall LibraryCallOf(uint32_t packed) {
  LibraryCall call;
  std::memcpy(&call, &packed, sizeof(call));
  return call;
}

}  // namespace prism::shim
