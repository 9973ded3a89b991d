// What library_calls.txt says about a call, packed into a number by whoever writes
// the functions (launch/process/replaced_libraries.h, generate_stubs.py), and the
// records of the calls that issue work.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include <cuda_runtime_api.h>

namespace prism::shim {

// Numbered as by those who pack it.
enum class LibraryAction : uint8_t {
  kDone,
  kCreate,
  kNumber,
  kDestroy,
  kStream,
  kRun,
  kWorkspace,
  kElements,
  kVector,
  kScalar,
  kColumn,
  kProduct,
};

// Whose handle argument 0 is.
enum class HandleKind : uint8_t { kObject, kNumber, kBlas, kDnn };

inline constexpr uint8_t kNoArgument = 255;

struct LibraryCall {
  LibraryAction action;
  HandleKind handle;
  char precision;        // S, D, C, Z or H of a cuBLAS call's name; 0: its arguments say it
  uint8_t arguments[4];  // their numbers
  uint8_t unused;
};

inline LibraryCall LibraryCallOf(uint64_t packed) {
  LibraryCall call;
  static_assert(sizeof(call) == sizeof(packed));
  std::memcpy(&call, &packed, sizeof(call));
  return call;
}

// The arguments of a call, of which each, number or address, has eight bytes.
class Arguments {
 public:
  Arguments(const uint64_t* registers, const uint64_t* stack)
      : registers_(registers), stack_(stack) {}

  [[nodiscard]] uint64_t operator[](uint8_t index) const {
    constexpr uint8_t kInRegisters = 6;  // System V ABI
    return index < kInRegisters ? registers_[index] : stack_[index - kInRegisters];
  }

  [[nodiscard]] int32_t Number(uint8_t index) const { return static_cast<int32_t>((*this)[index]); }

  // Stores where the argument points to; does nothing if it is null or absent.
  template <typename Value>
  void Store(uint8_t index, Value value) const {
    if (index != kNoArgument && (*this)[index] != 0) {
      std::memcpy(reinterpret_cast<void*>((*this)[index]), &value, sizeof(value));
    }
  }

 private:
  const uint64_t* registers_;
  const uint64_t* stack_;
};

// Whether the call issues work.
inline bool Issues(LibraryAction action) {
  return action == LibraryAction::kRun || action >= LibraryAction::kVector;
}

// Emits what such a call issues on `stream`, unless its sizes are invalid; false then. `tf32`: a
// mode of the handle allows products of float32 to be rounded.
bool IssueCall(LibraryCall call,
               std::string_view name,
               const Arguments& arguments,
               cudaStream_t stream,
               bool tf32);

}  // namespace prism::shim
