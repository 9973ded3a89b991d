#include "graph/job/job.h"

#include <algorithm>

#include "graph/base/check.h"
#include "graph/base/divide.h"
#include "graph/job/names.h"
#include "graph/job/unit_parameters.h"

namespace prism::graph {
namespace {

// Weights of all layers that are used in matrix products: those that a token uses (`active`), or
// all.
int64_t LayersMatrixWeights(const ModelSpec& model, bool active) {
  JobSpec one_rank;
  one_rank.model = model;
  const auto of_layer = [&](int64_t layer) {
    int64_t weights = 0;
    for (const UnitParameter& parameter : LayerParameters(one_rank, layer)) {
      const int64_t count = parameter.expert && active ? model.moe.topk : parameter.count;
      weights += parameter.decay ? parameter.outputs * parameter.inputs * count : 0;
    }
    return weights;
  };
  const int64_t dense =
      model.moe.experts == 0 ? model.layers : std::min(model.moe.dense_layers, model.layers);
  return dense * of_layer(0) + (model.layers - dense) * of_layer(model.layers - 1);
}

// Biases of the four linear layers of a GPT layer; other blocks have none.
int64_t LayerBiases(const ModelSpec& model) {
  if (model.block != BlockKind::kGpt) {
    return 0;
  }
  const int64_t qkv = (model.heads + 2 * model.kv_heads) * model.HeadDim();
  return qkv + model.hidden + model.ffn + model.hidden;
}

// LayerNorm has weight and bias, RMSNorm a weight.
int64_t NormParameters(const ModelSpec& model) {
  return model.block == BlockKind::kLlama ? model.hidden : 2 * model.hidden;
}

// Keys that a query attends to on average: a causal mask leaves half of the pairs, a window at most
// its width.
double MeanKeys(const JobSpec& job, bool windowed) {
  const auto length = static_cast<double>(job.seq_len);
  const auto window = static_cast<double>(job.model.sliding_window);
  if (!windowed || window >= length) {
    return length / 2;
  }
  return window * (length - window / 2) / length;
}

// Forward FLOPs of the attention cores (QKᵀ and its product with V) of all layers for one token.
double AttentionCoreFlops(const JobSpec& job) {
  const ModelSpec& model = job.model;
  const int64_t key_width = model.HeadDim() + model.latent.rope_dim;
  const int64_t value_width = model.latent.kv_rank == 0 ? model.HeadDim() : model.latent.value_dim;
  const int64_t windowed = model.sliding_window == 0 ? 0 : model.layers / 2;
  const double keys = static_cast<double>(windowed) * MeanKeys(job, true) +
                      static_cast<double>(model.layers - windowed) * MeanKeys(job, false);
  return 2.0 * static_cast<double>(model.heads * (key_width + value_width)) * keys;
}

// Forward FLOPs of all layers for one token.
double LayersForwardFlops(const JobSpec& job) {
  return 2.0 * static_cast<double>(LayersMatrixWeights(job.model, /*active=*/true)) +
         AttentionCoreFlops(job);
}

double LogitFlops(const ModelSpec& model) {
  return 2.0 * static_cast<double>(model.hidden) * static_cast<double>(model.vocab);
}

}  // namespace

const char* RecomputeName(Recompute recompute) {
  return NameOf(kRecomputeNames, recompute);
}

std::optional<Recompute> RecomputeNamed(std::string_view name) {
  return ValueNamed(kRecomputeNames, name);
}

bool LayersDivide(int64_t layers, int64_t chunks) {
  const bool balanced = chunks > 2 && (layers + 2) % chunks == 0 && layers > chunks;
  return layers % chunks == 0 || balanced;
}

LayerRange LayersOfChunk(int64_t layers, int64_t chunks, int64_t chunk) {
  PRISM_CHECK(chunk >= 0 && chunk < chunks);
  if (layers % chunks != 0 && LayersDivide(layers, chunks)) {
    const int64_t count = (layers + 2) / chunks;
    return {std::max<int64_t>(chunk * count - 1, 0), std::min((chunk + 1) * count - 1, layers)};
  }
  const int64_t larger = layers % chunks;  // chunks with one layer more, in the middle
  const int64_t first_larger = (chunks - larger) / 2;
  const auto begin = [&](int64_t index) {
    return index * (layers / chunks) + std::clamp<int64_t>(index - first_larger, 0, larger);
  };
  return {begin(chunk), begin(chunk + 1)};
}

int64_t PaddedVocab(const JobSpec& job) {
  constexpr int64_t kRows = 128;
  return RoundUp(job.model.vocab, kRows * job.parallel.tp);
}

int64_t ModelParameters(const ModelSpec& model) {
  const int64_t layer = LayerBiases(model) + 2 * NormParameters(model);
  int64_t embeddings = model.vocab * model.hidden;
  if (!model.tied_embeddings) {
    embeddings *= 2;
  }
  if (model.block == BlockKind::kGpt) {
    embeddings += model.seq_len * model.hidden;  // learned positions
  }
  const int64_t matrices = LayersMatrixWeights(model, /*active=*/false);
  return model.layers * layer + matrices + NormParameters(model) + embeddings;
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
      recomputed_per_token = AttentionCoreFlops(job);
      break;
    case Recompute::kFull:
      recomputed_per_token = LayersForwardFlops(job);
      break;
  }
  return ModelFlops(job) + recomputed_per_token * static_cast<double>(job.tokens_per_iteration());
}

}  // namespace prism::graph
