#include "replayer/memory/layer_tensors.h"

#include <numeric>

#include "graph/program/rank_shape.h"
#include "replayer/memory/model_states.h"

namespace prism::replayer {
namespace {

using graph::AttentionKind;
using graph::JobSpec;
using graph::Recompute;
using graph::TrainingStyle;

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kMaskBytes = 1;  // of a dropout mask, per element

// Bytes of tensors of a micro-batch on one rank. Whatever is not split by heads or width is split
// by sequence, or not at all.
struct Sizes : graph::RankShape {
  Sizes(const JobSpec& job_spec, const TrainingStyle& training_style)
      : RankShape(job_spec, training_style), element(DataTypeBytes(job_spec.compute_dtype)) {}

  // Tokens outside tensor-parallel regions.
  [[nodiscard]] int64_t Rows() const { return shard * batch; }

  [[nodiscard]] int64_t Hidden() const { return Compressed(hidden); }
  [[nodiscard]] int64_t WholeHidden() const { return tokens() * hidden * element; }

  // One row per token that is the same on all tensor-parallel ranks.
  [[nodiscard]] int64_t Compressed(int64_t width) const { return Rows() * width * element; }

  [[nodiscard]] int64_t Heads(int64_t count, int64_t size) const {
    return tokens() * count * size * element;
  }
  [[nodiscard]] int64_t Ffn() const { return tokens() * ffn * element; }
  [[nodiscard]] int64_t Mask() const { return Rows() * hidden * kMaskBytes; }

  // Elements of the matrix of attention scores; whole rows even if the context is split.
  [[nodiscard]] int64_t Scores() const { return tokens() * sequence * heads; }

  [[nodiscard]] int64_t Logits() const { return tokens() * vocab; }  // elements
  [[nodiscard]] int64_t ChunkOfLogits() const {
    constexpr int64_t kTokens = 2048;  // as prime-rl and Liger have it
    return std::min(tokens(), kTokens) * vocab;
  }

  // Rows that the experts of this rank compute if all experts of a layer are equally busy.
  [[nodiscard]] int64_t ExpertRows() const {
    return Rows() * job.model.moe.topk * job.parallel.etp;
  }
  [[nodiscard]] int64_t ExpertFfn() const {
    return ExpertRows() * job.model.moe.expert_ffn * element / job.parallel.etp;
  }
  [[nodiscard]] int64_t ExpertHidden() const { return ExpertRows() * hidden * element; }

  int64_t element;
};

// Statistics of a norm, float32 per token: the mean (LayerNorm) and the reciprocal deviation.
int64_t NormStatistics(const Sizes& sizes) {
  return sizes.Rows() * (sizes.layer_norm ? 2 : 1) * kFloatBytes;
}

// Scores of the unfused attention: the softmax's output (2as²b, in float32 if it is PyTorch's own),
// the mask (as²b) and the output (2as²b) of its dropout. Flash attention keeps its output and the
// float32 log-sum-exp of each row instead.
std::vector<Tensor> CoreAttention(const Sizes& sizes) {
  if (sizes.style.attention != AttentionKind::kUnfused) {
    return {{"attention log-sum-exp", sizes.tokens() * sizes.heads * kFloatBytes}};
  }
  const int64_t scores = sizes.Scores();
  const int64_t softmax_element = sizes.style.fused_softmax ? sizes.element : kFloatBytes;
  std::vector<Tensor> tensors = {{"softmax output", scores * softmax_element}};
  if (sizes.style.dropout) {
    tensors.push_back({"attention dropout mask", scores * kMaskBytes});
    tensors.push_back({"attention dropout output", scores * sizes.element});
  }
  return tensors;
}

// Inputs and output of the activation. SwiGLU as in Megatron's fused kernel keeps both branches and
// recomputes silu; unfused, silu's output is kept as well.
std::vector<Tensor> MlpTensors(const Sizes& sizes) {
  std::vector<Tensor> tensors = {{"activation input", (sizes.ffn_matrices - 1) * sizes.Ffn()}};
  const bool keeps_silu = HasTorchModules(sizes.style) && !sizes.style.compiled;
  if (sizes.llama && keeps_silu) {
    tensors.push_back({"silu output", sizes.Ffn()});
  }
  tensors.push_back({"mlp output projection input", sizes.Ffn()});
  return tensors;
}

// A tensor that the backward pass of a layer reads; which part of a selective recomputation
// computes it again there instead of keeping it (RecomputePart), and which part of an offload keeps
// it in host memory meanwhile (OffloadedPart); 0: none.
struct LayerTensor {
  Tensor tensor;
  uint32_t recomputed_by = 0;
  uint32_t offloaded_by = 0;
};

void Append(const std::vector<Tensor>& more,
            uint32_t recomputed_by,
            uint32_t offloaded_by,
            std::vector<LayerTensor>* tensors) {
  for (const Tensor& tensor : more) {
    tensors->push_back({tensor, recomputed_by, offloaded_by});
  }
}

// Router, dispatch and experts of Megatron-Core: logits, probabilities and the map of a token's
// experts, in float32 and bytes; the rows received for this rank's experts, their intermediate
// tensors there, and their results, which the gradient of the probabilities reads.
std::vector<LayerTensor> ExpertTensors(const Sizes& sizes) {
  const graph::MoeShape& moe = sizes.job.model.moe;
  const int64_t choices = sizes.Rows() * moe.experts;
  const int64_t branches = sizes.ffn_matrices - 1;
  std::vector<LayerTensor> tensors;
  Append({{"router logits", choices * kFloatBytes},
          {"probabilities", choices * kFloatBytes},
          {"map of experts", choices * kMaskBytes}},
         graph::kRecomputeMoe, 0, &tensors);
  tensors.push_back(
      {{"dispatched rows", sizes.ExpertHidden()}, graph::kRecomputeMoe, kOffloadExpertInput});
  tensors.push_back({{"expert activation input", branches * sizes.ExpertFfn()},
                     graph::kRecomputeMoe,
                     kOffloadExpertActivation});
  // The tensor that is then multiplied by the probabilities; the built-in workload multiplies at
  // the end.
  if (!sizes.style.fused_bias_activation && !sizes.style.built_in) {
    tensors.push_back({{"expert activation output", sizes.ExpertFfn()},
                       graph::kRecomputeMoe | graph::kRecomputeActivation});
  }
  tensors.push_back({{"expert output projection input", sizes.ExpertFfn()},
                     graph::kRecomputeMoe | graph::kRecomputeActivation});
  Append({{"expert output", sizes.ExpertHidden()}}, graph::kRecomputeMoe, 0, &tensors);
  if (moe.shared_expert_ffn > 0) {
    const int64_t shared =
        sizes.tokens() * moe.shared_expert_ffn * sizes.element / sizes.job.parallel.tp;
    Append({{"shared expert activation input", branches * shared},
            {"shared expert output projection input", shared}},
           graph::kRecomputeMoe, 0, &tensors);
  }
  return tensors;
}

void Append(const std::vector<Tensor>& more, std::vector<Tensor>* tensors) {
  tensors->insert(tensors->end(), more.begin(), more.end());
}

// What attention reads. Latent attention keeps the compressed rows before and after their norms
// too, keys with their positional part copied to every head (Megatron-Core:
// transformer/multi_latent_attention.py).
std::vector<LayerTensor> AttentionInputs(const Sizes& sizes, bool normed_queries) {
  const graph::LatentAttention& latent = sizes.job.model.latent;
  const bool is_latent = latent.kv_rank > 0;
  const int64_t queries = sizes.Heads(sizes.heads, sizes.head_size);
  const int64_t keys = sizes.Heads(sizes.kv_heads, sizes.head_size);
  constexpr uint32_t kCore = kOffloadCoreAttention;
  std::vector<LayerTensor> inputs;
  if (is_latent) {
    Append({{"compressed queries", sizes.Compressed(latent.q_rank)},
            {"normed compressed queries", sizes.Compressed(latent.q_rank)},
            {"compressed keys and values", sizes.Compressed(latent.kv_rank + latent.rope_dim)},
            {"normed compressed keys and values", sizes.Compressed(latent.kv_rank)}},
           0, kOffloadProjections, &inputs);
  }
  Append({{"queries", queries},
          {"keys", keys},
          {"values", sizes.Heads(sizes.kv_heads, sizes.value_size)}},
         is_latent ? uint32_t{graph::kRecomputeUpProjection} : 0U, kCore, &inputs);
  // The values are a view of the projection's output, which rotation copies the others out of
  // (launch/trainer/attention.cc).
  if (!is_latent && sizes.built_in && sizes.llama) {
    Append({{"queries before rotation", queries}, {"keys before rotation", keys}}, 0, kCore,
           &inputs);
  }
  if (!is_latent && normed_queries) {
    Append({{"queries in front of their norm", queries}, {"keys in front of their norm", keys}}, 0,
           0, &inputs);
  }
  return inputs;
}

// Everything that the backward pass of a layer reads: 34sbh + 5as²b for GPT with unfused attention
// and dropout at t = 1 (Korthikanti et al., equation 1). Norms that are fused into a product are
// not recomputed separately: those of plain attention and of a dense feed-forward.
std::vector<LayerTensor> SavedOfLayer(const Sizes& sizes, bool has_experts, bool normed_queries) {
  const bool own_norm = sizes.job.model.latent.kv_rank > 0;
  std::vector<LayerTensor> saved = {{{"layer input", sizes.Hidden()}, 0, kOffloadAttentionNorm},
                                    {{"attention norm output", sizes.Hidden()},
                                     own_norm ? uint32_t{graph::kRecomputeNorm} : 0U,
                                     kOffloadProjections}};
  const std::vector<LayerTensor> inputs = AttentionInputs(sizes, normed_queries);
  saved.insert(saved.end(), inputs.begin(), inputs.end());
  Append(CoreAttention(sizes), graph::kRecomputeCoreAttention, kOffloadCoreAttention, &saved);
  saved.push_back({{"attention output", sizes.Heads(sizes.heads, sizes.value_size)},
                   0,
                   kOffloadOutputProjection});
  if (sizes.style.dropout) {
    saved.push_back({{"projection dropout mask", sizes.Mask()}});
  }
  saved.push_back({{"mlp norm input", sizes.Hidden()}, 0, kOffloadMlpNorm});
  saved.push_back(
      {{"mlp norm output", sizes.Hidden()}, has_experts ? uint32_t{graph::kRecomputeNorm} : 0U});
  if (has_experts) {
    const std::vector<LayerTensor> experts = ExpertTensors(sizes);
    saved.insert(saved.end(), experts.begin(), experts.end());
  } else {
    Append(MlpTensors(sizes), graph::kRecomputeMlp, 0, &saved);
  }
  if (sizes.style.dropout) {
    saved.push_back({{"mlp dropout mask", sizes.Mask()}});
  }
  return saved;
}

// torchtitan's selective activation checkpointing per op: of the seven matrix products of a layer
// the outputs of every second one are kept (queries, values, the first branch of the feed-forward,
// its output), also the result of attention and that of each reduce_scatter, after attention and
// feed-forward; the rest is recomputed. With tp the output of the feed-forward is a partial sum
// over the whole sequence. A compiler does not keep the layer's output, which no gradient reads.
std::vector<Tensor> SavedOfEverySecondMatmul(const Sizes& sizes) {
  const int64_t size = sizes.job.model.HeadDim();
  std::vector<Tensor> saved = {{"layer input", sizes.Hidden()},
                               {"queries", sizes.Heads(sizes.heads, size)},
                               {"values", sizes.Heads(sizes.kv_heads, size)},
                               {"attention output", sizes.Heads(sizes.heads, size)},
                               {"first feed-forward branch", sizes.Ffn()}};
  const bool scatters = sizes.sequence_parallel;
  if (scatters) {
    saved.push_back({"scattered attention output", sizes.Hidden()});
  }
  if (!sizes.style.compiled) {
    saved.push_back({"feed-forward output", sizes.WholeHidden()});
    saved.push_back({"scattered feed-forward output", scatters ? sizes.Hidden() : 0});
  }
  Append(CoreAttention(sizes), &saved);
  return saved;
}

// The whole sequence, gathered for a column-parallel product or scattered after a row-parallel one.
std::vector<Tensor> GatheredHidden(const Sizes& sizes) {
  return sizes.sequence_parallel
             ? std::vector<Tensor>{{"gathered hidden states", sizes.WholeHidden()}}
             : std::vector<Tensor>{};
}

}  // namespace

int64_t UnitTensors::saved_bytes() const {
  return std::accumulate(saved.begin(), saved.end(), int64_t{0},
                         [](int64_t sum, const Tensor& tensor) { return sum + tensor.bytes; });
}

UnitTensors EmbeddingTensors(const JobSpec& job, const TrainingStyle& style) {
  const Sizes sizes(job, style);
  UnitTensors tensors;
  tensors.saved = {{"token ids", sizes.tokens() * 8}};
  if (style.dropout) {
    tensors.saved.push_back({"embedding dropout mask", sizes.Mask()});
  }
  tensors.forward = {{"partial embeddings", sizes.WholeHidden()}};
  tensors.backward = {{"gathered gradients", sizes.WholeHidden()}};
  return tensors;
}

UnitTensors LayerTensors(const JobSpec& job,
                         const TrainingStyle& style,
                         int64_t layer,
                         const LayerFacts& facts) {
  const Sizes sizes(job, style);
  const bool has_experts = sizes.job.model.IsMoeLayer(layer);
  const uint32_t parts = job.recompute == Recompute::kSelective ? style.recompute_parts : 0U;
  UnitTensors tensors;
  tensors.forward = GatheredHidden(sizes);
  tensors.forward.push_back({"row-parallel output", sizes.WholeHidden()});
  for (const LayerTensor& saved : SavedOfLayer(sizes, has_experts, facts.normed_queries)) {
    const bool elsewhere =
        (saved.recomputed_by & parts) != 0 || (saved.offloaded_by & facts.offloaded_parts) != 0;
    if (!elsewhere) {
      tensors.saved.push_back(saved.tensor);
    } else {
      tensors.forward.push_back(saved.tensor);
      tensors.backward.push_back(saved.tensor);
    }
  }
  if ((parts & graph::kRecomputeEverySecondMatmul) != 0) {
    Append(tensors.saved, &tensors.backward);
    Append(tensors.saved, &tensors.forward);
    tensors.saved = SavedOfEverySecondMatmul(sizes);
  }
  const bool is_second = (parts & graph::kRecomputeEverySecondLayer) != 0 && layer % 2 == 0;
  if (job.recompute == Recompute::kFull || is_second) {
    tensors.backward = tensors.saved;
    tensors.forward = tensors.saved;
    tensors.saved = {{"layer input", sizes.Hidden()}};
  }
  Append(GatheredHidden(sizes), &tensors.backward);
  Append(GatheredHidden(sizes), &tensors.backward);
  tensors.backward.push_back({"gradient of the hidden states", sizes.WholeHidden()});
  const int64_t mlp = has_experts ? sizes.ExpertFfn() : sizes.Ffn();
  tensors.backward.push_back({"gradient of the mlp", (sizes.ffn_matrices - 1) * mlp});
  if (style.attention == AttentionKind::kUnfused) {
    tensors.backward.push_back({"gradients of scores", 2 * sizes.Scores() * sizes.element});
  }
  if (has_experts) {
    tensors.forward.push_back({"rows to dispatch", sizes.ExpertHidden()});
    tensors.backward.push_back({"gradients of the rows", 2 * sizes.ExpertHidden()});
  }
  return tensors;
}

UnitTensors FurtherLayerTensors(const JobSpec& job,
                                const TrainingStyle& style,
                                const LayerFacts& facts) {
  const Sizes sizes(job, style);
  UnitTensors tensors = LayerTensors(job, style, job.model.layers, facts);
  tensors.saved.push_back({"words of the next token", sizes.Hidden()});
  tensors.saved.push_back({"joined hidden states", 2 * sizes.Hidden()});
  return tensors;
}

// Cross entropy in float32 makes a copy of the 16-bit logits and turns it in place into the softmax
// that backward needs; PyTorch's own holds the float32 logits and the result together, and in the
// backward pass the gradients of both; if logits are divided over tp, one more copy, shifted by the
// maximum (torch/distributed/tensor/parallel/loss.py). A fused one works in place in the 16-bit
// logits or, if compiled, produces their gradient.
UnitTensors HeadTensors(const JobSpec& job, const TrainingStyle& style) {
  const Sizes sizes(job, style);
  UnitTensors tensors;
  tensors.saved = {{"final norm input", sizes.Hidden()}, {"final norm output", sizes.Hidden()}};
  tensors.saved.push_back({"norm statistics", NormStatistics(sizes)});
  tensors.forward = GatheredHidden(sizes);
  tensors.backward = GatheredHidden(sizes);
  const bool of_torch = HasTorchModules(style);
  if (style.chunked_head) {
    tensors.forward.push_back({"chunk of logits", sizes.ChunkOfLogits() * kFloatBytes});
    tensors.backward.push_back({"chunk of logits", sizes.ChunkOfLogits() * kFloatBytes});
    tensors.backward.push_back({"gradient of a chunk", sizes.ChunkOfLogits() * kFloatBytes});
  } else if (style.fused_cross_entropy) {
    tensors.saved.push_back({"logits", sizes.Logits() * sizes.element});
    if (of_torch) {
      tensors.backward.push_back({"gradient of the logits", sizes.Logits() * sizes.element});
    }
  } else {
    // torch's last stage holds its output until the backward pass of the micro-batch is complete.
    const bool held = of_torch && job.parallel.pp > 1 && !style.keeps_pipeline_outputs;
    tensors.saved.push_back({"softmax of the logits", sizes.Logits() * kFloatBytes});
    (held ? tensors.saved : tensors.forward).push_back({"logits", sizes.Logits() * sizes.element});
    if (of_torch || style.compiled_cross_entropy) {
      tensors.forward.push_back({"float32 logits", sizes.Logits() * kFloatBytes});
    }
    if (of_torch) {
      const int64_t copies = sizes.tensor_parallel ? 2 : 1;
      tensors.forward.push_back({"shifted logits", (copies - 1) * sizes.Logits() * kFloatBytes});
      tensors.loss = {{"float32 gradients of losses", copies * sizes.Logits() * kFloatBytes},
                      {"float32 gradient", sizes.Logits() * kFloatBytes}};
    }
    tensors.backward.push_back({"gradient of the logits", sizes.Logits() * sizes.element});
  }
  tensors.backward.push_back({"gradient of the hidden states", sizes.WholeHidden()});
  return tensors;
}

std::vector<Tensor> DeferredHeadTensors(const JobSpec& job, const TrainingStyle& style) {
  const Sizes sizes(job, style);
  return {{"gradient of the logits", sizes.Logits() * sizes.element},
          {"final norm output", sizes.Hidden()}};
}

std::vector<Tensor> TorchStageTensors(const JobSpec& job,
                                      const TrainingStyle& style,
                                      int32_t stage,
                                      int64_t waiting) {
  std::vector<Tensor> tensors;
  if (job.parallel.pp == 1) {
    return tensors;
  }
  const Sizes sizes(job, style);
  const bool is_last = stage == job.parallel.pp - 1;
  const int64_t receiving = job.parallel.vpp - (stage == 0 ? 1 : 0);  // chunks, from one before
  const int64_t followed = job.parallel.vpp - (is_last ? 1 : 0);
  tensors.push_back({"inputs", (job.microbatches() - waiting) * receiving * sizes.Hidden()});
  tensors.push_back({"gradients of outputs", job.microbatches() * followed * sizes.Hidden()});
  if (is_last && style.keeps_pipeline_outputs) {
    tensors.push_back({"logits", job.microbatches() * sizes.Logits() * sizes.element});
  }
  return tensors;
}

UnitTensors BoundaryTensors(const JobSpec& job, const TrainingStyle& style) {
  const Sizes sizes(job, style);
  UnitTensors tensors;
  tensors.backward = {{"received gradient", sizes.Hidden()}};
  if (style.memory == graph::MemoryPattern::kDeepSpeed) {
    tensors.saved = {{"output", sizes.Hidden()}};
  }
  return tensors;
}

}  // namespace prism::replayer
