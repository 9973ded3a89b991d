#include "graph/job/unit_parameters.h"

#include <algorithm>
#include <utility>

namespace prism::graph {
namespace {

class Declarations {
 public:
  explicit Declarations(const JobSpec& job)
      : job_(job),
        model_(job.model),
        tp_(job.parallel.tp),
        sums_(job.sequence_parallel && job.parallel.tp > 1),
        has_bias_(job.model.block == BlockKind::kGpt),
        heads_(job.model.heads / job.parallel.tp) {}

  [[nodiscard]] UnitParameters Finish() { return std::move(parameters_); }

  // LayerNorm has weight and bias, RMSNorm a weight.
  void Norm(int64_t width) {
    parameters_.push_back({.outputs = width, .sequence_parallel = sums_, .decay = false});
    if (model_.block != BlockKind::kLlama) {
      Bias({.outputs = width, .sequence_parallel = sums_});
    }
  }

  void Words(bool tied, int32_t uses = 1) {
    parameters_.push_back({.outputs = PaddedVocab(job_) / tp_,
                           .inputs = model_.hidden,
                           .split = true,
                           .tied = tied,
                           .uses = uses});
  }

  void Positions() {
    if (has_bias_) {
      parameters_.push_back({.outputs = job_.seq_len, .inputs = model_.hidden});
    }
  }

  void JoinedEmbeddings() { Column(model_.hidden / tp_, 2 * model_.hidden, /*has_bias=*/false); }

  void Layer(int64_t layer) {
    Norm(model_.hidden);
    const int64_t value = model_.latent.kv_rank > 0 ? LatentProjections() : Projections();
    Row(heads_ * value);
    Norm(model_.hidden);
    model_.IsMoeLayer(layer) ? Experts() : FeedForward(model_.ffn / tp_);
  }

  void ParallelLayer() {
    const int64_t ffn = model_.ffn / tp_;
    Norm(model_.hidden);
    Column(QkvWidth() + Branches() * ffn, model_.hidden, has_bias_);
    Row(heads_ * model_.HeadDim() + ffn);
  }

 private:
  // What a feed-forward multiplies the hidden states by: SwiGLU has two branches.
  [[nodiscard]] int64_t Branches() const { return model_.FfnMatrices() - 1; }

  // A rank has one head of keys and values at least.
  [[nodiscard]] int64_t QkvWidth() const {
    return (heads_ + 2 * std::max<int64_t>(1, model_.kv_heads / tp_)) * model_.HeadDim();
  }

  void Bias(UnitParameter parameter) {
    parameter.decay = false;
    parameter.bias = true;
    parameters_.push_back(parameter);
  }

  void Column(int64_t outputs, int64_t inputs, bool has_bias) {
    parameters_.push_back({.outputs = outputs, .inputs = inputs, .split = true});
    if (has_bias) {
      Bias({.outputs = outputs, .split = true});
    }
  }

  // Into the hidden states.
  void Row(int64_t inputs) {
    parameters_.push_back({.outputs = model_.hidden, .inputs = inputs, .split = true});
    if (has_bias_) {
      Bias({.outputs = model_.hidden, .sequence_parallel = sums_});
    }
  }

  void Whole(int64_t outputs, int64_t inputs) {
    parameters_.push_back({.outputs = outputs, .inputs = inputs, .sequence_parallel = sums_});
  }

  // Of queries, keys and values. Returns the width of a head's values.
  int64_t Projections() {
    Column(QkvWidth(), model_.hidden, has_bias_);
    return model_.HeadDim();
  }

  // The same through compressed rows, without biases; the positional part of keys is not expanded
  // (Megatron-Core: transformer/multi_latent_attention.py).
  int64_t LatentProjections() {
    const LatentAttention& latent = model_.latent;
    const int64_t queries = heads_ * (model_.HeadDim() + latent.rope_dim);
    if (latent.q_rank > 0) {
      Whole(latent.q_rank, model_.hidden);
      Norm(latent.q_rank);
    }
    Column(queries, latent.q_rank > 0 ? latent.q_rank : model_.hidden, /*has_bias=*/false);
    Whole(latent.kv_rank + latent.rope_dim, model_.hidden);
    Norm(latent.kv_rank);
    Column(heads_ * (model_.HeadDim() + latent.value_dim), latent.kv_rank, /*has_bias=*/false);
    return latent.value_dim;
  }

  void FeedForward(int64_t width) {
    Column(Branches() * width, model_.hidden, has_bias_);
    Row(width);
  }

  void Experts() {
    const MoeShape& moe = model_.moe;
    Whole(moe.experts, model_.hidden);
    const int64_t width = moe.expert_ffn / job_.parallel.etp;
    OfExperts(Branches() * width, model_.hidden);
    OfExperts(model_.hidden, width);
    if (moe.shared_expert_ffn > 0) {
      FeedForward(moe.shared_expert_ffn / tp_);
    }
  }

  void OfExperts(int64_t outputs, int64_t inputs) {
    UnitParameter weight = {.outputs = outputs, .inputs = inputs, .split = true, .expert = true};
    weight.count = std::max<int64_t>(1, model_.moe.experts / job_.parallel.ep);
    parameters_.push_back(weight);
    if (has_bias_ || model_.moe.biased) {
      weight.inputs = 1;
      Bias(weight);
    }
  }

  const JobSpec& job_;
  const ModelSpec& model_;
  int64_t tp_;
  bool sums_;      // gradients of what is whole are partial sums
  bool has_bias_;  // linear layers; such blocks also learn positions
  int64_t heads_;  // this rank's
  UnitParameters parameters_;
};

}  // namespace

UnitParameters EmbeddingParameters(const JobSpec& job, bool shares_embedding) {
  Declarations unit(job);
  unit.Words(job.model.tied_embeddings, shares_embedding ? 2 : 1);
  unit.Positions();
  return unit.Finish();
}

UnitParameters HeadParameters(const JobSpec& job, bool shares_embedding) {
  Declarations unit(job);
  unit.Norm(job.model.hidden);
  if (!shares_embedding) {
    unit.Words(job.model.tied_embeddings);
  }
  return unit.Finish();
}

UnitParameters LayerParameters(const JobSpec& job, int64_t layer) {
  Declarations unit(job);
  unit.Layer(layer);
  return unit.Finish();
}

UnitParameters ParallelLayerParameters(const JobSpec& job) {
  Declarations unit(job);
  unit.ParallelLayer();
  return unit.Finish();
}

UnitParameters FurtherLayerParameters(const JobSpec& job, int64_t layer) {
  Declarations unit(job);
  unit.Norm(job.model.hidden);
  unit.Norm(job.model.hidden);
  unit.JoinedEmbeddings();
  unit.Layer(layer);
  unit.Norm(job.model.hidden);
  return unit.Finish();
}

}  // namespace prism::graph
