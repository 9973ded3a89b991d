// One of the vpp model chunks of a pipeline stage: some layers, preceded by the embedding on the
// first virtual stage and followed by norm, logits and loss on the last.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "launch/trainer/transformer_layer.h"

namespace prism::launch {

// Token ids of a micro-batch, [batch, sequence]; undefined if the stage does not need them.
struct MicrobatchTokens {
  at::Tensor inputs;
  at::Tensor targets;
};

class ModelChunk {
 public:
  // `config` and `groups` outlive the chunk.
  ModelChunk(const WorkloadConfig& config, const ParallelGroups& groups, int32_t chunk);
  ModelChunk(const ModelChunk&) = delete;
  ModelChunk& operator=(const ModelChunk&) = delete;
  ~ModelChunk() = default;

  // Tables that are not parameters: positions, rotations.
  void AllocateBuffers();

  // From the activation of the previous virtual stage (ignored on the first) to the activation for
  // the next, or on the last to the mean loss over the micro-batch's tokens, in float32.
  at::Tensor Forward(const at::Tensor& input, const MicrobatchTokens& tokens);

  // Around a backward pass.
  void BeginBackward();
  void EndBackward();

  [[nodiscard]] bool first() const { return first_; }
  [[nodiscard]] bool last() const { return last_; }
  [[nodiscard]] ParameterSet& parameters() { return parameters_; }

 private:
  void DeclareEmbedding();
  void DeclareHead();
  [[nodiscard]] at::Tensor Embed(const at::Tensor& ids) const;
  [[nodiscard]] at::Tensor Loss(const at::Tensor& hidden, const at::Tensor& targets) const;
  [[nodiscard]] at::Tensor HiddenOf(const at::Tensor& ids) const;
  [[nodiscard]] at::Tensor LossOf(const at::Tensor& hidden, const at::Tensor& targets) const;

  const WorkloadConfig& config_;
  bool first_;
  bool last_;
  ParameterSet parameters_;
  LayerContext context_;
  std::vector<std::unique_ptr<TransformerLayer>> layers_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;  // GPT
  Parameter* output_ = nullptr;     // the embedding itself if tied on one stage
  Norm final_norm_;
  at::Tensor position_ids_;
  size_t head_place_ = 0;
  std::function<void()> begin_embedding_backward_;
  std::function<void()> end_head_backward_;
};

}  // namespace prism::launch
