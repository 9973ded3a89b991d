// Calls of cuFFT, cuSOLVER, cuSPARSE, cuBLAS and cuDNN that a line of library_calls.txt describes:
// those in which only handle and stream matter, and the products and vector calls of cuBLAS.
// library_call.S forwards them. Results in device memory are left unchanged, as with every kernel;
// a factorisation's status there reads as zero, success.
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
#include <cublas_v2.h>
#include <cudnn.h>
#pragma GCC visibility pop

#include "shim/session.h"
#include "shim/virtual_device/blas_handle.h"
#include "shim/virtual_device/blas_record.h"
#include "shim/virtual_device/library_call.h"
#include "shim/virtual_device/memory.h"

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

// The name that users write: cublas_v2.h turns it into the exported one.
std::string_view WrittenName(std::string_view name) {
  return name.substr(0, name.rfind("_v2"));
}

cudaDataType TypeOf(char precision) {
  switch (precision) {
    case 'D':
      return CUDA_R_64F;
    case 'C':
      return CUDA_C_32F;
    case 'Z':
      return CUDA_C_64F;
    case 'H':
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// The type at an argument, or of the call's precision if there is no such argument.
cudaDataType TypeAt(LibraryCall call, const Arguments& arguments, uint8_t index) {
  return index == kNoArgument ? TypeOf(call.precision)
                              : static_cast<cudaDataType>(arguments.Number(index));
}

// Arguments 1 to 5 of all products: which matrices are transposed, m, n, k.
Product ProductOf(LibraryCall call, std::string_view name, const Arguments& arguments) {
  const auto [batch, input, output, compute] = call.arguments;
  return {
      .name = WrittenName(name),
      .m = arguments.Number(3),
      .n = arguments.Number(4),
      .k = arguments.Number(5),
      .batch = batch == kNoArgument ? 1 : arguments.Number(batch),
      .input = TypeAt(call, arguments, input),
      .output = TypeAt(call, arguments, output),
      .transpose_a = arguments.Number(1) != CUBLAS_OP_N,
      .transpose_b = arguments.Number(2) != CUBLAS_OP_N,
      .tf32 = compute != kNoArgument && arguments.Number(compute) == CUBLAS_COMPUTE_32F_FAST_TF32};
}

// A matrix-vector product is a product with one column.
Product ColumnOf(LibraryCall call, std::string_view name, const Arguments& arguments) {
  const bool plain = arguments.Number(1) == CUBLAS_OP_N;
  const cudaDataType type = TypeOf(call.precision);
  return {.name = WrittenName(name),
          .m = arguments.Number(plain ? 2 : 3),
          .n = 1,
          .k = arguments.Number(plain ? 3 : 2),
          .input = type,
          .output = type,
          .transpose_a = !plain};
}

bool IssueProduct(Product product, cudaStream_t stream, bool tf32) {
  product.tf32 = product.tf32 || tf32;
  if (product.m < 0 || product.n < 0 || product.k < 0 || product.batch < 0) {
    return false;
  }
  EmitProduct(product, stream);
  return true;
}

// In host pointer mode the caller reads the result at once: it is zero, like everything that a
// kernel would have computed, and that is counted.
void WriteScalar(LibraryCall call, const BlasHandle& handle, const Arguments& arguments) {
  if (handle.pointer_mode == CUBLAS_POINTER_MODE_HOST) {
    SetBytes(reinterpret_cast<void*>(arguments[call.arguments[0]]), 0,
             ScalarBytes(TypeAt(call, arguments, call.arguments[1])));
    Count("blas_scalar_results_zero");
  }
}

// Products and vector calls.
cublasStatus_t DoBlas(LibraryCall call, const char* name, const Arguments& arguments) {
  const BlasHandle* const handle = FromHandle(reinterpret_cast<cublasHandle_t>(arguments[0]));
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  // The mode has flags in addition to its value.
  const bool tf32 = (handle->math_mode & CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_TF32_TENSOR_OP_MATH;
  if (!IssueCall(call, name, arguments, handle->stream, tf32)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (call.action == LibraryAction::kScalar) {
    WriteScalar(call, *handle, arguments);
  }
  return CUBLAS_STATUS_SUCCESS;
}

// Returns the library's status; zero is success in each of them.
long Do(LibraryCall call, const char* name, const Arguments& arguments) {
  const auto [first, second, third, fourth] = call.arguments;
  switch (call.action) {
    case LibraryAction::kDone:
      break;
    case LibraryAction::kCreate:
      arguments.Store(first, new Object());
      break;
    case LibraryAction::kNumber:
      arguments.Store(first, NewPlan());
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
      IssueCall(call, name, arguments, StreamOf(call.handle, arguments[0]), false);
      arguments.Store(first, int32_t{0});
      break;
    case LibraryAction::kWorkspace:
      arguments.Store(first, uint64_t{0});
      arguments.Store(second, uint64_t{0});
      Count("library_workspace_unknown");
      break;
    case LibraryAction::kElements:
      arguments.Store(first, int32_t{0});
      Count("library_workspace_unknown");
      break;
    default:
      return DoBlas(call, name, arguments);
  }
  return 0;
}

}  // namespace

bool IssueCall(LibraryCall call,
               std::string_view name,
               const Arguments& arguments,
               cudaStream_t stream,
               bool tf32) {
  switch (call.action) {
    case LibraryAction::kColumn:
      return IssueProduct(ColumnOf(call, name, arguments), stream, tf32);
    case LibraryAction::kProduct:
      return IssueProduct(ProductOf(call, name, arguments), stream, tf32);
    default:
      EmitLibraryCall(call.action == LibraryAction::kRun ? name : WrittenName(name), stream);
      return true;
  }
}

extern "C" {

long prism_shim_do_library_call(const char* name,
                                uint64_t what,
                                const uint64_t* registers,
                                const uint64_t* stack) {
  return Do(LibraryCallOf(what), name, Arguments(registers, stack));
}
}  // extern "C"
}  // namespace prism::shim
