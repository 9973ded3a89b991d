#include "graph/job.h"

#include <algorithm>

#include "graph/base/check.h"

namespace prism::graph {
namespace {

int64_t HeadDim(const ModelSpec& model) {
  return model.heads == 0 ? 0 : model.hidden / model.heads;
}

// Weights of one layer that take part in matrix products: QKV and output projection, feed-forward
// (two matrices in GPT, three in SwiGLU).
int64_t LayerMatrixWeights(const ModelSpec& model) {
  const int64_t query_width = model.heads * HeadDim(model);
  const int64_t key_value_width = model.kv_heads * HeadDim(model);
  const int64_t attention =
      model.hidden * (query_width + 2 * key_value_width) + query_width * model.hidden;
  const int64_t matrices = model.block == BlockKind::kLlama ? 3 : 2;
  return attention + matrices * model.hidden * model.ffn;
}

// Biases of the four linear layers; Llama has none.
int64_t LayerBiases(const ModelSpec& model) {
  if (model.block == BlockKind::kLlama) {
    return 0;
  }
  const int64_t qkv = (model.heads + 2 * model.kv_heads) * HeadDim(model);
  return qkv + model.hidden + model.ffn + model.hidden;
}

// LayerNorm has weight and bias, RMSNorm a weight.
int64_t NormParameters(const ModelSpec& model) {
  return model.block == BlockKind::kLlama ? model.hidden : 2 * model.hidden;
}

// Forward FLOPs of the attention core (QKᵀ and its product with V) of one layer and one token.
// Each is 2·s·h; a causal mask leaves half of the pairs.
double AttentionCoreFlops(const JobSpec& job) {
  const ModelSpec& model = job.model;
  const auto width = static_cast<double>(model.heads * HeadDim(model));
  constexpr double kCausalShare = 0.5;
  return kCausalShare * 4.0 * static_cast<double>(job.seq_len) * width;
}

// Forward FLOPs of all layers for one token.
double LayersForwardFlops(const JobSpec& job) {
  const double layer =
      2.0 * static_cast<double>(LayerMatrixWeights(job.model)) + AttentionCoreFlops(job);
  return static_cast<double>(job.model.layers) * layer;
}

double LogitFlops(const ModelSpec& model) {
  return 2.0 * static_cast<double>(model.hidden) * static_cast<double>(model.vocab);
}

}  // namespace

bool LayersDivide(int64_t layers, int64_t chunks) {
  const bool balanced = chunks > 2 && (layers + 2) % chunks == 0 && layers > chunks;
  return layers % chunks == 0 || balanced;
}

LayerRange LayersOfChunk(int64_t layers, int64_t chunks, int64_t chunk) {
  PRISM_CHECK(LayersDivide(layers, chunks));
  if (layers % chunks == 0) {
    const int64_t count = layers / chunks;
    return {chunk * count, (chunk + 1) * count};
  }
  const int64_t count = (layers + 2) / chunks;
  return {std::max<int64_t>(chunk * count - 1, 0), std::min((chunk + 1) * count - 1, layers)};
}

int64_t ModelParameters(const ModelSpec& model) {
  const int64_t layer = LayerMatrixWeights(model) + LayerBiases(model) + 2 * NormParameters(model);
  int64_t embeddings = model.vocab * model.hidden;
  if (!model.tied_embeddings) {
    embeddings *= 2;
  }
  if (model.block == BlockKind::kGpt) {
    embeddings += model.seq_len * model.hidden;  // learned positions
  }
  return model.layers * layer + NormParameters(model) + embeddings;
}

double ModelFlops(const JobSpec& job) {
  constexpr double kForwardAndBackward = 3.0;
  const double token = LayersForwardFlops(job) + LogitFlops(job.model);
  return kForwardAndBackward * token * static_cast<double>(job.tokens_per_iteration());
}

double HardwareFlops(const JobSpec& job) {
  double recomputed_per_token = 0;
  switch (job.recompute) {
    case Recompute::kNone:
      break;
    case Recompute::kSelective:
      recomputed_per_token = static_cast<double>(job.model.layers) * AttentionCoreFlops(job);
      break;
    case Recompute::kFull:
      recomputed_per_token = LayersForwardFlops(job);
      break;
  }
  return ModelFlops(job) + recomputed_per_token * static_cast<double>(job.tokens_per_iteration());
}

}  // namespace prism::graph
