// What library_calls.txt says about a call, packed into a number by generate_stubs.py.
#pragma once

#include <cstdint>
#include <cstring>

namespace prism::shim {

// Numbered as in generate_stubs.py.
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

// Action, two argument numbers and the kind of handle, one byte each.
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
