// cuDNN's recurrent networks: weight layouts as the program queries them, and the matrix products
// of each pass.
//
// How much memory the library needs for a pass is not documented. The minimum that a backward pass
// needs is assumed: gates, cell state and output of each step (counted as
// library_workspace_assumed).
#include <cstdint>
#include <iterator>
#include <vector>

#include "shim/session.h"
#include "shim/virtual_device/dnn_network.h"
#include "shim/virtual_device/dnn_tensor.h"

namespace prism::shim {
namespace {

Network* NetworkOf(cudnnRNNDescriptor_t descriptor) {
  return reinterpret_cast<Network*>(descriptor);
}

Sequences* SequencesOf(cudnnRNNDataDescriptor_t descriptor) {
  return reinterpret_cast<Sequences*>(descriptor);
}

cudaStream_t StreamOf(cudnnHandle_t handle) {
  cudaStream_t stream = nullptr;
  cudnnGetStream(handle, &stream);
  return stream;
}

// Describes the weights as [1, rows, columns] at their offset; empty if there are none.
void Tell(const Weights& weights,
          cudnnDataType_t type,
          const void* space,
          cudnnTensorDescriptor_t descriptor,
          void** address) {
  if (descriptor != nullptr) {
    *LayoutOf(descriptor) = {.type = type,
                             .count = 3,
                             .dims = {1, weights.rows, weights.columns},
                             .strides = {weights.rows * weights.columns, weights.columns, 1}};
  }
  if (address != nullptr) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(space);
    *address = weights.Count() == 0
                   ? nullptr
                   : reinterpret_cast<void*>(begin + weights.offset * ElementBytes(type));
  }
}

}  // namespace

extern "C" {

PRISM_DNN_DESCRIPTOR(RNN, Network)
PRISM_DNN_DESCRIPTOR(RNNData, Sequences)

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor,
                                        cudnnDataType_t /*type*/,
                                        cudnnRNNDataLayout_t /*layout*/,
                                        int /*longest*/,
                                        int batch,
                                        int /*features*/,
                                        const int lengths[],
                                        void* /*padding*/) {
  if (descriptor == nullptr || lengths == nullptr || batch < 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  *SequencesOf(descriptor) = {std::vector<int>(lengths, std::next(lengths, batch))};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor,
                                       cudnnRNNAlgo_t /*algorithm*/,
                                       cudnnRNNMode_t mode,
                                       cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t /*input_mode*/,
                                       cudnnDataType_t type,
                                       cudnnDataType_t /*precision*/,
                                       cudnnMathType_t math,
                                       int32_t input,
                                       int32_t hidden,
                                       int32_t output,
                                       int32_t layers,
                                       cudnnDropoutDescriptor_t /*dropout*/,
                                       uint32_t /*flags*/) {
  if (descriptor == nullptr || input < 0 || hidden < 0 || output < 0 || layers < 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  *NetworkOf(descriptor) = {.mode = mode,
                            .bias = bias,
                            .type = type,
                            .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                            .input = input,
                            .hidden = hidden,
                            .output = output,
                            .layers = layers,
                            .tf32 = math != CUDNN_FMA_MATH};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t /*handle*/,
                                         cudnnRNNDescriptor_t descriptor,
                                         size_t* bytes) {
  const Network& network = *NetworkOf(descriptor);
  *bytes = WeightSpace(network).Count() * ElementBytes(network.type);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t /*handle*/,
                                      cudnnRNNDescriptor_t descriptor,
                                      int32_t pseudo_layer,
                                      size_t /*bytes*/,
                                      const void* space,
                                      int32_t id,
                                      cudnnTensorDescriptor_t matrix,
                                      void** matrix_address,
                                      cudnnTensorDescriptor_t bias,
                                      void** bias_address) {
  const Network& network = *NetworkOf(descriptor);
  const WeightSpace weights(network);
  Tell(weights.Matrix(pseudo_layer, id), network.type, space, matrix, matrix_address);
  Tell(weights.Bias(pseudo_layer, id), network.type, space, bias, bias_address);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t /*handle*/,
                                        cudnnRNNDescriptor_t descriptor,
                                        cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t data,
                                        size_t* workspace,
                                        size_t* reserve) {
  const Network& network = *NetworkOf(descriptor);
  const auto steps = static_cast<size_t>(SequencesOf(data)->Steps());
  const auto gates = static_cast<size_t>(network.Gates() * network.hidden);
  const auto directions = static_cast<size_t>(network.directions);
  const size_t element = ElementBytes(network.type);
  const size_t of_layer = steps * directions * element;
  if (workspace != nullptr) {
    *workspace = of_layer * gates;
  }
  if (reserve != nullptr) {
    const auto kept = gates + static_cast<size_t>(network.hidden + network.output);
    *reserve =
        mode == CUDNN_FWD_MODE_TRAINING ? of_layer * kept * static_cast<size_t>(network.layers) : 0;
  }
  Count("library_workspace_assumed");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle,
                              cudnnRNNDescriptor_t descriptor,
                              cudnnForwardMode_t /*mode*/,
                              const int32_t /*lengths*/[],
                              cudnnRNNDataDescriptor_t data,
                              const void* /*x*/,
                              cudnnRNNDataDescriptor_t /*y_data*/,
                              void* /*y*/,
                              cudnnTensorDescriptor_t /*h_layout*/,
                              const void* /*hx*/,
                              void* /*hy*/,
                              cudnnTensorDescriptor_t /*c_layout*/,
                              const void* /*cx*/,
                              void* /*cy*/,
                              size_t /*weight_bytes*/,
                              const void* /*weights*/,
                              size_t /*workspace_bytes*/,
                              void* /*workspace*/,
                              size_t /*reserve_bytes*/,
                              void* /*reserve*/) {
  NetworkPass("cudnnRNNForward", *NetworkOf(descriptor), *SequencesOf(data), StreamOf(handle))
      .Forward();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle,
                                      cudnnRNNDescriptor_t descriptor,
                                      const int32_t /*lengths*/[],
                                      cudnnRNNDataDescriptor_t data,
                                      const void* /*y*/,
                                      const void* /*dy*/,
                                      cudnnRNNDataDescriptor_t /*x_data*/,
                                      void* /*dx*/,
                                      cudnnTensorDescriptor_t /*h_layout*/,
                                      const void* /*hx*/,
                                      const void* /*dhy*/,
                                      void* /*dhx*/,
                                      cudnnTensorDescriptor_t /*c_layout*/,
                                      const void* /*cx*/,
                                      const void* /*dcy*/,
                                      void* /*dcx*/,
                                      size_t /*weight_bytes*/,
                                      const void* /*weights*/,
                                      size_t /*workspace_bytes*/,
                                      void* /*workspace*/,
                                      size_t /*reserve_bytes*/,
                                      void* /*reserve*/) {
  NetworkPass("cudnnRNNBackwardData", *NetworkOf(descriptor), *SequencesOf(data), StreamOf(handle))
      .BackwardData();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle,
                                         cudnnRNNDescriptor_t descriptor,
                                         cudnnWgradMode_t /*mode*/,
                                         const int32_t /*lengths*/[],
                                         cudnnRNNDataDescriptor_t data,
                                         const void* /*x*/,
                                         cudnnTensorDescriptor_t /*h_layout*/,
                                         const void* /*hx*/,
                                         cudnnRNNDataDescriptor_t /*y_data*/,
                                         const void* /*y*/,
                                         size_t /*weight_bytes*/,
                                         void* /*weight_gradient*/,
                                         size_t /*workspace_bytes*/,
                                         void* /*workspace*/,
                                         size_t /*reserve_bytes*/,
                                         void* /*reserve*/) {
  NetworkPass("cudnnRNNBackwardWeights", *NetworkOf(descriptor), *SequencesOf(data),
              StreamOf(handle))
      .BackwardWeights();
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace prism::shim
