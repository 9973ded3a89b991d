// The units that a pipeline stage executes in a pass of a model chunk, in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/passing_tensors.h"
#include "replayer/memory/sharded_parameters.h"

namespace prism::replayer {

// What a unit of a stage allocates.
struct StageUnit {
  StageUnit() = default;
  StageUnit(UnitTensors unit, const AllocatorConfig& config)
      : tensors(std::move(unit)),
        forward(tensors.forward, config),
        backward(tensors.backward, config),
        loss(tensors.loss, config) {}

  UnitTensors tensors;
  PassingTensors forward;
  PassingTensors backward;
  PassingTensors loss;
};

// The units of a stage's model chunks, by chunk and place: the embedding, layers, and after the
// model's last layer those that predict further tokens, with a head for each prediction. The job
// and the style must outlive it.
class StageUnits {
 public:
  StageUnits(const graph::JobSpec& job,
             const graph::TrainingStyle& style,
             int32_t stage,
             const LayerFacts& facts,
             const AllocatorConfig& allocator);

  [[nodiscard]] int64_t CountOf(int64_t chunk) const;
  [[nodiscard]] bool IsLayer(int64_t chunk, int64_t place) const;
  [[nodiscard]] bool IsHead(int64_t chunk, int64_t place) const;
  [[nodiscard]] const StageUnit& At(int64_t chunk, int64_t place) const;

  // WholeGradientsOfStage.
  [[nodiscard]] const std::vector<Tensor>& whole_gradients() const { return whole_gradients_; }

  // Parameters of the chunk: those of its layers, of the embedding, and all others at the end.
  [[nodiscard]] ShardedChunk Sharded(int64_t chunk) const;

 private:
  // Two layers of a chunk keep the same tensors if they agree on three things: having experts,
  // having an even number, and being the last. Nothing of the last is offloaded, since its backward
  // pass may be next (Megatron-Core: core/pipeline_parallel/fine_grained_activation_offload.py).
  [[nodiscard]] size_t KindOf(const graph::LayerRange& layers, int64_t layer) const;
  [[nodiscard]] int64_t LayersOf(int64_t chunk) const;
  [[nodiscard]] bool HasEmbedding(int64_t chunk) const { return stage_ == 0 && chunk == 0; }
  [[nodiscard]] bool EndsModel(int64_t chunk) const;

  // The layer index of the unit at a place within the chunk: before the first for the embedding.
  [[nodiscard]] int64_t LayerAt(int64_t chunk, int64_t place) const {
    return place - (HasEmbedding(chunk) ? 1 : 0);
  }

  const graph::JobSpec& job_;
  const graph::TrainingStyle& style_;
  int32_t stage_;
  bool root_has_ends_;
  std::vector<graph::LayerRange> layers_;  // by chunk
  std::array<std::optional<StageUnit>, 8> by_kind_;
  StageUnit embedding_;
  StageUnit further_;
  StageUnit head_;
  StageUnit boundary_;
  std::vector<Tensor> whole_gradients_;
};

}  // namespace prism::replayer
