// Calls of cuFFT, cuSOLVER, cuSPARSE and those of cuBLAS and cuDNN in which only handle and stream
// matter: library_calls.txt says what each does, library_call.S forwards them. Results in device
// memory are left unchanged, as with every kernel; a factorisation's status there reads as zero,
// success.
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#pragma GCC visibility push(default)
#include <cublas_v2.h>
#include <cudnn.h>
#pragma GCC visibility pop

#include "shim/session.h"
#include "shim/virtual_device/blas_handle.h"
#include "shim/virtual_device/blas_record.h"
#include "shim/virtual_device/library_call.h"

namespace prism::shim {
namespace {

struct Object {
  cudaStream_t stream = nullptr;
};

// Plans identified by a number; a destroyed one leaves its place empty.
struct Plans {
  std::mutex mutex;
  std::vector<Object> objects;
};

Plans& AllPlans() {
  static auto* const plans = new Plans();
  return *plans;
}

class Arguments {
 public:
  Arguments(const uint64_t* registers, const uint64_t* stack)
      : registers_(registers), stack_(stack) {}

  [[nodiscard]] uint64_t operator[](uint8_t index) const {
    constexpr uint8_t kInRegisters = 6;  // System V ABI
    return index < kInRegisters ? registers_[index] : stack_[index - kInRegisters];
  }

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

Object* ObjectOf(uint64_t handle) {
  return reinterpret_cast<Object*>(handle);
}

size_t PlanOf(uint64_t handle) {
  return static_cast<uint32_t>(handle);
}

cudaStream_t StreamOf(HandleKind kind, uint64_t handle) {
  switch (kind) {
    case HandleKind::kObject:
      return ObjectOf(handle)->stream;
    case HandleKind::kNumber: {
      const std::lock_guard<std::mutex> lock(AllPlans().mutex);
      return AllPlans().objects[PlanOf(handle)].stream;
    }
    case HandleKind::kBlas:
      return FromHandle(reinterpret_cast<cublasHandle_t>(handle))->stream;
    case HandleKind::kDnn: {
      cudaStream_t stream = nullptr;
      cudnnGetStream(reinterpret_cast<cudnnHandle_t>(handle), &stream);
      return stream;
    }
  }
  return nullptr;
}

void SetStream(HandleKind kind, uint64_t handle, uint64_t stream) {
  auto* const given = reinterpret_cast<cudaStream_t>(stream);
  if (kind == HandleKind::kNumber) {
    const std::lock_guard<std::mutex> lock(AllPlans().mutex);
    AllPlans().objects[PlanOf(handle)].stream = given;
  } else {
    ObjectOf(handle)->stream = given;
  }
}

int NewPlan() {
  const std::lock_guard<std::mutex> lock(AllPlans().mutex);
  AllPlans().objects.emplace_back();
  return static_cast<int>(AllPlans().objects.size() - 1);
}

void Do(LibraryCall call, const char* name, const Arguments& arguments) {
  switch (call.action) {
    case LibraryAction::kDone:
      break;
    case LibraryAction::kCreate:
      arguments.Store(call.first, new Object());
      break;
    case LibraryAction::kNumber:
      arguments.Store(call.first, NewPlan());
      break;
    case LibraryAction::kDestroy:
      if (call.handle == HandleKind::kObject) {
        delete ObjectOf(arguments[0]);
      }
      break;
    case LibraryAction::kStream:
      SetStream(call.handle, arguments[0], arguments[1]);
      break;
    case LibraryAction::kRun:
      EmitLibraryCall(name, StreamOf(call.handle, arguments[0]));
      arguments.Store(call.first, int32_t{0});
      break;
    case LibraryAction::kWorkspace:
      arguments.Store(call.first, uint64_t{0});
      arguments.Store(call.second, uint64_t{0});
      Count("library_workspace_unknown");
      break;
    case LibraryAction::kElements:
      arguments.Store(call.first, int32_t{0});
      Count("library_workspace_unknown");
      break;
  }
}

}  // namespace
}  // namespace prism::shim

extern "C" {

// Returns zero, which is success in each of the libraries.
long prism_shim_do_library_call(const char* name,
                                uint32_t what,
                                const uint64_t* registers,
                                const uint64_t* stack) {
  prism::shim::Do(prism::shim::LibraryCallOf(what), name, prism::shim::Arguments(registers, stack));
  return 0;
}
}
