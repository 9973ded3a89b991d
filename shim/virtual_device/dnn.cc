// cuDNN: handles, and the graph API that attention is built with. A descriptor is a store of
// attributes: reading returns what was set, plus the few answers that a library without knobs would
// give, with one engine; for convolutions of fp32 with a second one that does not use TF32, which
// callers choose who do not allow the first. Executing a plan emits one kKernel record; what it
// computes and with which shapes is known from the framework op it belongs to, or from the graph
// (dnn_operation.h). Of the older per-layer calls, recurrent networks are in dnn_rnn.cc, others in
// library_calls.txt.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "shim/session.h"
#include "shim/virtual_device/blas_record.h"
#include "shim/virtual_device/dnn_descriptor.h"
#include "shim/virtual_device/dnn_operation.h"
#include "shim/virtual_device/library_versions.h"

namespace prism::shim {
namespace {

struct DnnHandle {
  cudaStream_t stream = nullptr;
};

DnnHandle* FromHandle(cudnnHandle_t handle) {
  return reinterpret_cast<DnnHandle*>(handle);
}

using Attribute = DnnAttribute;
using Descriptor = DnnDescriptor;

Descriptor* FromOpaque(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Descriptor*>(descriptor);
}

// Bytes of one element of an attribute; all enumerations have four.
size_t ElementBytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}

// What the library itself knows about a descriptor: how many elements an attribute has that the
// program never set. Numbers among them are zero.
struct Answer {
  int64_t count;
  bool is_number;
};

Answer OwnAnswer(const Descriptor& descriptor, cudnnBackendAttributeName_t name) {
  const bool has_exact = descriptor.exact_context != 0;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:  // configurations: the caller's descriptors
      return {has_exact ? 2 : 1, false};
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return {has_exact ? 1 : 0, true};
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return {1, false};
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return {1, true};
    default:
      return {0, false};  // no knobs, no other notes
  }
}

void HandContextOn(const Descriptor& source, Descriptor* target) {
  target->context = source.context;
  target->exact_context = source.exact_context;
  target->replaces_framework_op = source.replaces_framework_op;
}

// Finds a finished descriptor's context: from its operation graph, or from the descriptor that
// passes it on.
void FindContext(Descriptor* descriptor) {
  if (descriptor->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    if (const auto operation = FindOperation(*descriptor)) {
      descriptor->context = DefineOnce(channel::Table::kContext, EncodeContext(*operation));
      if (const auto exact = WithoutTf32(*operation)) {
        descriptor->exact_context = DefineOnce(channel::Table::kContext, EncodeContext(*exact));
      }
      descriptor->replaces_framework_op = operation->replaces_framework_op;
    }
    return;
  }
  for (const auto name : {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                          CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG}) {
    for (const Descriptor* const source : descriptor->Descriptors(name)) {
      HandContextOn(*source, descriptor);
    }
  }
}

// The caller's descriptors represent the results of heuristics and a configuration's engine.
void HandContextOnToAll(const Descriptor& source, void* elements, int64_t count) {
  auto* const* const targets = static_cast<Descriptor* const*>(elements);
  for (int64_t i = 0; i < count; ++i) {
    if (targets[i] != nullptr) {
      HandContextOn(source, targets[i]);
      if (i > 0) {
        targets[i]->context = std::exchange(targets[i]->exact_context, 0);
      }
    }
  }
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() {
  return static_cast<size_t>(DnnVersion());
}

size_t cudnnGetMaxDeviceVersion() {
  return CUDNN_MAX_DEVICE_VERSION;
}

size_t cudnnGetCudartVersion() {
  return static_cast<size_t>(CudaVersion());
}

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr || type > PATCH_LEVEL) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  *value = VersionPart(DnnVersion(), type);
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
#define PRISM_NAMED(value) \
  case value:              \
    return #value;
  switch (status) {
    PRISM_NAMED(CUDNN_STATUS_SUCCESS)
    PRISM_NAMED(CUDNN_STATUS_NOT_INITIALIZED)
    PRISM_NAMED(CUDNN_STATUS_BAD_PARAM)
    PRISM_NAMED(CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    PRISM_NAMED(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
    PRISM_NAMED(CUDNN_STATUS_NOT_SUPPORTED)
    PRISM_NAMED(CUDNN_STATUS_INTERNAL_ERROR)
    PRISM_NAMED(CUDNN_STATUS_EXECUTION_FAILED)
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
#undef PRISM_NAMED
}

void cudnnGetLastErrorString(char* message, size_t size) {
  if (message != nullptr && size != 0) {
    std::snprintf(message, size, "not supported by the virtual device");
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (handle == nullptr) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  *handle = reinterpret_cast<cudnnHandle_t>(new DnnHandle());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete FromHandle(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) {
    return CUDNN_STATUS_NOT_INITIALIZED;
  }
  FromHandle(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr || stream == nullptr) {
    return CUDNN_STATUS_NOT_INITIALIZED;
  }
  *stream = FromHandle(handle)->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (descriptor == nullptr) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  auto* made = new Descriptor();
  made->type = type;
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete FromOpaque(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  if (descriptor == nullptr) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  FromOpaque(descriptor)->attributes.clear();
  FromOpaque(descriptor)->finalized = false;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (descriptor == nullptr) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  FindContext(FromOpaque(descriptor));
  FromOpaque(descriptor)->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count,
                                       const void* elements) {
  if (descriptor == nullptr || (elements == nullptr && count > 0) || count < 0) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  const auto* first = static_cast<const std::byte*>(elements);
  const size_t bytes = static_cast<size_t>(count) * ElementBytes(type);
  FromOpaque(descriptor)->attributes[name] = {type, count, {first, first + bytes}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t requested,
                                       int64_t* count,
                                       void* elements) {
  if (descriptor == nullptr) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  const auto& attributes = FromOpaque(descriptor)->attributes;
  const auto found = attributes.find(name);
  const bool is_set = found != attributes.end();
  const Answer own = OwnAnswer(*FromOpaque(descriptor), name);
  const int64_t available = is_set ? found->second.count : own.count;
  if (count != nullptr) {
    *count = available;
  }
  const size_t bytes =
      static_cast<size_t>(std::clamp<int64_t>(requested, 0, available)) * ElementBytes(type);
  if (elements == nullptr || bytes == 0) {
    return CUDNN_STATUS_SUCCESS;
  }
  if (is_set && found->second.type == type) {
    std::memcpy(elements, found->second.bytes.data(), bytes);
  } else if (own.is_number) {
    static_assert(CUDNN_NUMERICAL_NOTE_TENSOR_CORE == 0);
    std::memset(elements, 0, bytes);
  } else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    HandContextOnToAll(*FromOpaque(descriptor), elements,
                       std::clamp<int64_t>(requested, 0, available));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  if (handle == nullptr || plan == nullptr || variant_pack == nullptr) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  const uint32_t outer = ThreadContext();
  const uint32_t own = FromOpaque(plan)->context;
  if (own != 0 && (outer == 0 || FromOpaque(plan)->replaces_framework_op)) {
    SetThreadContext(own);
  }
  EmitLibraryCall("cudnnBackendExecute", FromHandle(handle)->stream);
  SetThreadContext(outer);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace prism::shim
