// A recurrent network of cuDNN: where its weights are, and the matrix products of a pass. A
// persistent implementation, whose kernels contain several steps, is modelled as one product per
// step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cuda_runtime_api.h>

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop

namespace prism::shim {

// Sequences of one batch.
struct Sequences {
  std::vector<int> lengths;

  [[nodiscard]] int Longest() const {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }

  [[nodiscard]] int Steps() const {
    int steps = 0;
    for (const int length : lengths) {
      steps += length;
    }
    return steps;
  }

  // Number of sequences that have not ended at a step.
  [[nodiscard]] int At(int step) const {
    return static_cast<int>(std::count_if(lengths.begin(), lengths.end(),
                                          [step](int length) { return length > step; }));
  }
};

struct Network {
  cudnnRNNMode_t mode = CUDNN_RNN_TANH;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_NO_BIAS;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int directions = 1;
  int input = 0;   // features
  int hidden = 0;  // of the cell
  int output = 0;  // of the cell, after the projection
  int layers = 0;
  bool tf32 = false;  // products of fp32 may be rounded to it

  [[nodiscard]] int Gates() const { return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1; }
  [[nodiscard]] int InputOf(int layer) const { return layer == 0 ? input : output * directions; }
  [[nodiscard]] bool Projects() const { return output != hidden; }
  [[nodiscard]] int Biases() const {
    return bias == CUDNN_RNN_NO_BIAS ? 0 : bias == CUDNN_RNN_DOUBLE_BIAS ? 2 : 1;
  }
};

size_t ElementBytes(cudnnDataType_t type);

// A matrix of weights or a vector of biases: where it begins and its extent.
struct Weights {
  size_t offset = 0;  // elements
  int rows = 0;
  int columns = 0;

  [[nodiscard]] size_t Count() const {
    return static_cast<size_t>(rows) * static_cast<size_t>(columns);
  }
};

// All matrices, layer by layer, then all biases. Within a layer, first the gates' matrices for the
// input, then those for the state, then the projection's: torch expects those of one kind to be
// adjacent.
class WeightSpace {
 public:
  explicit WeightSpace(const Network& network) : network_(network) {}

  // `id` counts the gates' matrices for the input, then those for the state; the projection is
  // last. Has no elements if there is none.
  [[nodiscard]] Weights Matrix(int pseudo_layer, int id) const;
  [[nodiscard]] Weights Bias(int pseudo_layer, int id) const;

  [[nodiscard]] size_t Count() const;  // elements

 private:
  [[nodiscard]] int PseudoLayers() const { return network_.layers * network_.directions; }
  [[nodiscard]] size_t MatricesBefore(int pseudo_layer) const;

  const Network& network_;
};

// The products of one pass over all layers, as records.
class NetworkPass {
 public:
  NetworkPass(const char* name,
              const Network& network,
              const Sequences& sequences,
              cudaStream_t stream)
      : name_(name), network_(network), sequences_(sequences), stream_(stream) {}

  // The gates of all steps from the input at once, then step by step the contribution of the state.
  void Forward() const;
  void BackwardData() const;
  void BackwardWeights() const;

 private:
  void Multiply(int m, int n, int k) const;  // once for each direction

  const char* name_;
  const Network& network_;
  const Sequences& sequences_;
  cudaStream_t stream_;
};

}  // namespace prism::shim
