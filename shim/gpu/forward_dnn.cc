// cuDNN: handles and the descriptors of its graph API, from which the record of an execution is
// made.
#include <vector>

#include "shim/gpu/forward.h"

PRISM_CREATE(cudnnCreate);
PRISM_DESTROY(cudnnDestroy);
PRISM_RECORD(cudnnSetStream);

// Recurrent networks; other layers are ops of one name (forward_library.cc).
PRISM_CREATE(cudnnCreateTensorDescriptor);
PRISM_RECORD(cudnnSetTensorNdDescriptor);
PRISM_DESTROY(cudnnDestroyTensorDescriptor);
PRISM_CREATE(cudnnCreateFilterDescriptor);
PRISM_RECORD(cudnnSetFilterNdDescriptor);
PRISM_DESTROY(cudnnDestroyFilterDescriptor);
PRISM_CREATE(cudnnCreateRNNDescriptor);
PRISM_RECORD(cudnnSetRNNDescriptor_v8);
PRISM_DESTROY(cudnnDestroyRNNDescriptor);
PRISM_CREATE(cudnnCreateRNNDataDescriptor);
PRISM_RECORD(cudnnSetRNNDataDescriptor);
PRISM_DESTROY(cudnnDestroyRNNDataDescriptor);
PRISM_RECORD(cudnnRNNForward);
PRISM_RECORD(cudnnRNNBackwardData_v8);
PRISM_RECORD(cudnnRNNBackwardWeights_v8);

PRISM_CALL(cudnnBackendCreateDescriptor);
PRISM_CALL(cudnnBackendDestroyDescriptor);
PRISM_CALL(cudnnBackendInitialize);
PRISM_CALL(cudnnBackendFinalize);
PRISM_CALL(cudnnBackendSetAttribute);
PRISM_CALL(cudnnBackendGetAttribute);
PRISM_CALL(cudnnBackendExecute);

namespace prism::shim {
namespace {

// Descriptors are addresses without a type, so they are looked up here.
cudnnStatus_t CreateDescriptor(cudnnBackendDescriptorType_t type,
                               cudnnBackendDescriptor_t* descriptor) {
  const bool within = WithinReal::Is();
  const cudnnStatus_t status = PRISM_REAL(cudnnBackendCreateDescriptor)(type, descriptor);
  if (!within && status == CUDNN_STATUS_SUCCESS) {
    cudnnBackendDescriptor_t twin = nullptr;
    prism_twin_cudnnBackendCreateDescriptor(type, &twin);
    PairHandles(*descriptor, twin);
  }
  return status;
}

cudnnStatus_t DestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  void* const twin = WithinReal::Is() ? nullptr : FindTwin(descriptor);
  if (twin != nullptr) {
    prism_twin_cudnnBackendDestroyDescriptor(twin);
    UnpairHandle(descriptor);
  }
  return PRISM_REAL(cudnnBackendDestroyDescriptor)(descriptor);
}

cudnnStatus_t Initialize(cudnnBackendDescriptor_t descriptor) {
  if (void* const twin = WithinReal::Is() ? nullptr : FindTwin(descriptor)) {
    prism_twin_cudnnBackendInitialize(twin);
  }
  return PRISM_REAL(cudnnBackendInitialize)(descriptor);
}

cudnnStatus_t Finalize(cudnnBackendDescriptor_t descriptor) {
  if (void* const twin = WithinReal::Is() ? nullptr : FindTwin(descriptor)) {
    prism_twin_cudnnBackendFinalize(twin);
  }
  return PRISM_REAL(cudnnBackendFinalize)(descriptor);
}

// Twins of the descriptors that an attribute names.
std::vector<void*> TwinsIn(const void* elements, int64_t count) {
  std::vector<void*> twins;
  for (int64_t i = 0; elements != nullptr && i < count; ++i) {
    twins.push_back(FindTwin(static_cast<void* const*>(elements)[i]));
  }
  return twins;
}

cudnnStatus_t SetAttribute(cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type,
                           int64_t count,
                           const void* elements) {
  if (void* const twin = WithinReal::Is() ? nullptr : FindTwin(descriptor)) {
    const bool names_others = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
    const std::vector<void*> twins = names_others ? TwinsIn(elements, count) : std::vector<void*>();
    prism_twin_cudnnBackendSetAttribute(twin, name, type, count,
                                        names_others ? twins.data() : elements);
  }
  return PRISM_REAL(cudnnBackendSetAttribute)(descriptor, name, type, count, elements);
}

// The results of heuristics inherit the identity of their graph.
cudnnStatus_t GetAttribute(cudnnBackendDescriptor_t const descriptor,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type,
                           int64_t requested,
                           int64_t* count,
                           void* elements) {
  void* const twin =
      WithinReal::Is() || type != CUDNN_TYPE_BACKEND_DESCRIPTOR ? nullptr : FindTwin(descriptor);
  if (twin != nullptr) {
    std::vector<void*> twins = TwinsIn(elements, requested);
    int64_t available = 0;
    prism_twin_cudnnBackendGetAttribute(twin, name, type, requested, &available, twins.data());
  }
  return PRISM_REAL(cudnnBackendGetAttribute)(descriptor, name, type, requested, count, elements);
}

cudnnStatus_t Execute(cudnnHandle_t handle,
                      cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t variant_pack) {
  if (!WithinReal::Is()) {
    void* const twin_plan = FindTwin(plan);
    void* const twin_pack = FindTwin(variant_pack);
    if (twin_plan != nullptr && twin_pack != nullptr) {
      CallTwin(&prism_twin_cudnnBackendExecute, TwinOf(handle), twin_plan, twin_pack);
    } else {
      Count("calls_on_unknown_handles");
    }
  }
  return PRISM_REAL(cudnnBackendExecute)(handle, plan, variant_pack);
}

}  // namespace
}  // namespace prism::shim

PRISM_INTERCEPT(cudnnBackendCreateDescriptor, prism::shim::CreateDescriptor);
PRISM_INTERCEPT(cudnnBackendDestroyDescriptor, prism::shim::DestroyDescriptor);
PRISM_INTERCEPT(cudnnBackendInitialize, prism::shim::Initialize);
PRISM_INTERCEPT(cudnnBackendFinalize, prism::shim::Finalize);
PRISM_INTERCEPT(cudnnBackendSetAttribute, prism::shim::SetAttribute);
PRISM_INTERCEPT(cudnnBackendGetAttribute, prism::shim::GetAttribute);
PRISM_INTERCEPT(cudnnBackendExecute, prism::shim::Execute);
