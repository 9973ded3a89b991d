// cuDNN packs the weights of all pseudo layers (a layer in one direction) into one buffer: first
// the matrices, pseudo layer by pseudo layer, in each those of the input for every gate, then those
// of the state, then the projection; after all matrices the biases. Frameworks ask for addresses
// inside it and copy parameters there, so offsets have to be exact.
//
// What a step computes from its input does not depend on the step before, so that part is one
// product over all steps; what it computes from the state is one product per step, with as many
// columns as sequences are still that long. Gradients of weights are sums over steps, hence one
// product whose inner dimension is all steps.
#include "shim/virtual_device/dnn_network.h"

#include "shim/virtual_device/blas_record.h"

namespace prism::shim {
namespace {

cudaDataType CudaType(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return CUDA_R_64F;
    case CUDNN_DATA_HALF:
      return CUDA_R_16F;
    case CUDNN_DATA_BFLOAT16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

size_t Size(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

}  // namespace

size_t ElementBytes(cudnnDataType_t type) {
  return ScalarBytes(CudaType(type));
}

Weights WeightSpace::Matrix(int pseudo_layer, int id) const {
  Weights found = {MatricesBefore(pseudo_layer), network_.hidden, 0};
  const int gates = network_.Gates();
  const int inputs = network_.InputOf(pseudo_layer / network_.directions);
  const size_t of_input = Size(network_.hidden, inputs);
  const size_t of_state = Size(network_.hidden, network_.output);
  if (id < gates) {
    found.offset += static_cast<size_t>(id) * of_input;
    found.columns = inputs;
  } else if (id < 2 * gates) {
    found.offset += static_cast<size_t>(gates) * of_input;
    found.offset += static_cast<size_t>(id - gates) * of_state;
    found.columns = network_.output;
  } else if (network_.Projects()) {
    found.offset += static_cast<size_t>(gates) * (of_input + of_state);
    found.rows = network_.output;
    found.columns = network_.hidden;
  }
  return found;
}

Weights WeightSpace::Bias(int pseudo_layer, int id) const {
  const int gates = network_.Gates();
  if (id >= network_.Biases() * gates) {
    return {};
  }
  const int before = pseudo_layer * network_.Biases() * gates + id;
  return {MatricesBefore(PseudoLayers()) + Size(before, network_.hidden), network_.hidden, 1};
}

size_t WeightSpace::Count() const {
  return MatricesBefore(PseudoLayers()) +
         Size(PseudoLayers() * network_.Biases() * network_.Gates(), network_.hidden);
}

size_t WeightSpace::MatricesBefore(int pseudo_layer) const {
  size_t count = 0;
  for (int i = 0; i < pseudo_layer; ++i) {
    count += Size(network_.Gates() * network_.hidden,
                  network_.InputOf(i / network_.directions) + network_.output);
    count += network_.Projects() ? Size(network_.output, network_.hidden) : 0;
  }
  return count;
}

void NetworkPass::Forward() const {
  const int gates = network_.Gates() * network_.hidden;
  for (int layer = 0; layer < network_.layers; ++layer) {
    Multiply(gates, sequences_.Steps(), network_.InputOf(layer));
    for (int step = 0; step < sequences_.Longest(); ++step) {
      Multiply(gates, sequences_.At(step), network_.output);
      if (network_.Projects()) {
        Multiply(network_.output, sequences_.At(step), network_.hidden);
      }
    }
  }
}

void NetworkPass::BackwardData() const {
  const int gates = network_.Gates() * network_.hidden;
  for (int layer = network_.layers - 1; layer >= 0; --layer) {
    for (int step = sequences_.Longest() - 1; step >= 0; --step) {
      if (network_.Projects()) {
        Multiply(network_.hidden, sequences_.At(step), network_.output);
      }
      Multiply(network_.output, sequences_.At(step), gates);
    }
    Multiply(network_.InputOf(layer), sequences_.Steps(), gates);
  }
}

void NetworkPass::BackwardWeights() const {
  const int gates = network_.Gates() * network_.hidden;
  for (int layer = network_.layers - 1; layer >= 0; --layer) {
    Multiply(gates, network_.InputOf(layer), sequences_.Steps());
    Multiply(gates, network_.output, sequences_.Steps());
    if (network_.Projects()) {
      Multiply(network_.output, network_.hidden, sequences_.Steps());
    }
  }
}

void NetworkPass::Multiply(int m, int n, int k) const {
  const cudaDataType type = CudaType(network_.type);
  EmitProduct({.name = name_,
               .m = m,
               .n = n,
               .k = k,
               .batch = network_.directions,
               .input = type,
               .output = type,
               .tf32 = network_.tf32},
              stream_);
}

}  // namespace prism::shim
