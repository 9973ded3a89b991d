#include "launch/trainer/model_chunk.h"

#include "launch/trainer/backward_hook.h"

namespace prism::launch {

ModelChunk::ModelChunk(const WorkloadConfig& config, const ParallelGroups& groups, int32_t chunk)
    : config_(config),
      first_(config.pp_rank() == 0 && chunk == 0),
      last_(config.pp_rank() == config.job.parallel.pp - 1 && chunk == config.job.parallel.vpp - 1),
      parameters_(config, groups) {
  context_.config = &config_;
  context_.tp = {&groups.tp, config.sequence_parallel()};
  context_.cp = &groups.cp;
  context_.ep = &groups.ep;
  if (first_) {
    DeclareEmbedding();
  }
  const graph::ParallelSizes& sizes = config.job.parallel;
  const graph::LayerRange layers =
      graph::LayersOfChunk(config.job.model.layers, int64_t{sizes.pp} * sizes.vpp,
                           int64_t{chunk} * sizes.pp + config.pp_rank());
  for (int64_t number = layers.begin; number < layers.end; ++number) {
    parameters_.BeginUnit();
    layers_.push_back(std::make_unique<TransformerLayer>(number, context_, &parameters_));
  }
  if (last_) {
    DeclareHead();
  }
  parameters_.Allocate(last_ && sizes.pp == 1);
  context_.sharded = parameters_.sharded();
  if (context_.sharded != nullptr) {
    begin_embedding_backward_ = [this] { context_.sharded->BeginBackward(0); };
    end_head_backward_ = [this] { context_.sharded->EndBackward(head_place_); };
  }
}

void ModelChunk::DeclareEmbedding() {
  parameters_.BeginUnit();
  const graph::ModelSpec& model = config_.job.model;
  ParameterSpec words;
  words.name = "embedding.weight";
  words.full_shape = {graph::PaddedVocab(config_.job), model.hidden};
  words.split_dim = 0;
  words.tied = model.tied_embeddings;
  embedding_ = parameters_.Declare(words);
  if (model.block == graph::BlockKind::kGpt) {
    ParameterSpec positions;
    positions.name = "positions.weight";
    positions.full_shape = {config_.job.seq_len, model.hidden};
    positions_ = parameters_.Declare(positions);
  }
}

// The copy of a tied embedding on the last stage has the first stage's name, hence its values. If
// the first and last stage are the same, head and embedding are one unit.
void ModelChunk::DeclareHead() {
  const graph::ModelSpec& model = config_.job.model;
  if (model.tied_embeddings && embedding_ != nullptr) {
    parameters_.ReturnToUnit(0);
  } else {
    parameters_.BeginUnit();
  }
  head_place_ = parameters_.place();
  final_norm_ = DeclareNorm(&parameters_, config_, "final_norm");
  if (model.tied_embeddings && embedding_ != nullptr) {
    output_ = embedding_;
    output_->uses = 2;
    return;
  }
  ParameterSpec words;
  words.name = model.tied_embeddings ? "embedding.weight" : "output.weight";
  words.full_shape = {graph::PaddedVocab(config_.job), model.hidden};
  words.split_dim = 0;
  words.tied = model.tied_embeddings;
  output_ = parameters_.Declare(words);
}

void ModelChunk::AllocateBuffers() {
  const at::TensorOptions options = parameters_.tensor_options();
  if (config_.job.model.block == graph::BlockKind::kLlama) {
    context_.rotary = MakeRotaryTables(config_, options);
  } else if (first_) {
    const int64_t begin = config_.cp_rank() * config_.sequence();
    position_ids_ =
        at::arange(begin, begin + config_.sequence(), options.dtype(at::kLong)).unsqueeze(0);
  }
}

at::Tensor ModelChunk::Forward(const at::Tensor& input, const MicrobatchTokens& tokens) {
  at::Tensor hidden = first_ ? Embed(tokens.inputs) : input;
  for (const auto& layer : layers_) {
    hidden = layer->Forward(hidden);
  }
  return last_ ? Loss(hidden, tokens.targets) : hidden;
}

void ModelChunk::BeginBackward() {
  if (last_ && context_.sharded != nullptr) {
    context_.sharded->BeginBackward(head_place_);
  }
}

void ModelChunk::EndBackward() {
  if (first_ && context_.sharded != nullptr) {
    context_.sharded->EndBackward(0);
  }
  parameters_.EndBackward();
}

at::Tensor ModelChunk::Embed(const at::Tensor& ids) const {
  const Marker marker("embedding");
  if (context_.sharded == nullptr) {
    return HiddenOf(ids);
  }
  context_.sharded->BeginForward(0);
  const at::Tensor hidden = HiddenOf(ids);
  context_.sharded->EndForward(0);
  return AtBackward(hidden, &begin_embedding_backward_);
}

at::Tensor ModelChunk::Loss(const at::Tensor& hidden, const at::Tensor& targets) const {
  const Marker marker("loss");
  if (context_.sharded == nullptr) {
    return LossOf(hidden, targets);
  }
  context_.sharded->BeginForward(head_place_);
  const at::Tensor loss = LossOf(AtBackward(hidden, &end_head_backward_), targets);
  context_.sharded->EndForward(head_place_);
  return loss;
}

// Megatron reduces before it adds the learned positions and only then scatters the sequence;
// without positions (Llama) the sum goes directly into the sequence shards.
at::Tensor ModelChunk::HiddenOf(const at::Tensor& ids) const {
  const at::Tensor partial = VocabParallelEmbedding(ids, *embedding_, context_.tp);
  if (positions_ == nullptr) {
    return ReduceToParallelRegion(partial.transpose(0, 1).contiguous(), context_.tp);
  }
  const at::Tensor words = ReduceFromGroup(partial, context_.tp);
  const at::Tensor sum = words + at::embedding(positions_->value, position_ids_);
  return ScatterSequence(sum.transpose(0, 1).contiguous(), context_.tp);
}

at::Tensor ModelChunk::LossOf(const at::Tensor& hidden, const at::Tensor& targets) const {
  const at::Tensor normed = ApplyNorm(final_norm_, hidden);
  const at::Tensor logits = ColumnParallelLinear(normed, *output_, nullptr, context_.tp);
  const at::Tensor by_sequence = targets.transpose(0, 1).contiguous();
  return VocabParallelCrossEntropy(logits, by_sequence, context_.tp).mean();
}

}  // namespace prism::launch
