#include "replayer/memory/stage_units.h"

#include <algorithm>
#include <numeric>

#include "replayer/memory/model_states.h"
#include "replayer/memory/workload_shards.h"

namespace prism::replayer {

StageUnits::StageUnits(const graph::JobSpec& job,
                       const graph::TrainingStyle& style,
                       int32_t stage,
                       const LayerFacts& facts,
                       const AllocatorConfig& allocator)
    : job_(job),
      style_(style),
      stage_(stage),
      root_has_ends_(style.fsdp_root_has_ends),
      layers_(LayersOfChunks(job, style, stage)),
      embedding_(EmbeddingTensors(job, style), allocator),
      further_(FurtherLayerTensors(job, style, facts), allocator),
      head_(HeadTensors(job, style), allocator),
      boundary_(BoundaryTensors(job, style), allocator) {
  for (const int64_t bytes : WholeGradientsOfStage(job, style, stage)) {
    whole_gradients_.push_back({"whole gradients", bytes});
  }
  for (const graph::LayerRange& layers : layers_) {
    for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
      std::optional<StageUnit>& unit = by_kind_[KindOf(layers, layer)];
      if (!unit.has_value()) {
        LayerFacts of_layer = facts;
        of_layer.offloaded_parts = layer == layers.end - 1 ? 0 : facts.offloaded_parts;
        unit.emplace(LayerTensors(job, style, layer, of_layer), allocator);
      }
    }
  }
}

int64_t StageUnits::CountOf(int64_t chunk) const {
  const int64_t ends = EndsModel(chunk) ? 2 * job_.model.mtp_layers + 1 : 1;
  return (HasEmbedding(chunk) ? 1 : 0) + LayersOf(chunk) + ends;
}

bool StageUnits::IsLayer(int64_t chunk, int64_t place) const {
  const int64_t layer = LayerAt(chunk, place);
  return layer >= 0 && layer < LayersOf(chunk);
}

bool StageUnits::IsHead(int64_t chunk, int64_t place) const {
  return &At(chunk, place) == &head_;
}

const StageUnit& StageUnits::At(int64_t chunk, int64_t place) const {
  const int64_t layer = LayerAt(chunk, place);
  if (layer < 0) {
    return embedding_;
  }
  if (layer < LayersOf(chunk)) {
    const graph::LayerRange& layers = layers_[static_cast<size_t>(chunk)];
    return *by_kind_[KindOf(layers, layers.begin + layer)];
  }
  if (!EndsModel(chunk)) {
    return boundary_;
  }
  return layer < LayersOf(chunk) + job_.model.mtp_layers ? further_ : head_;
}

ShardedChunk StageUnits::Sharded(int64_t chunk) const {
  const graph::LayerRange& layers = layers_[static_cast<size_t>(chunk)];
  if (ShardsByUnit(job_, style_)) {
    return WorkloadShardedChunk(job_, layers, chunk * job_.parallel.pp + stage_);
  }
  const auto shard_of = [&](const StageParameters& parameters) {
    const std::vector<int64_t> shards = ShardsOf(parameters, job_, style_);
    return std::accumulate(shards.begin(), shards.end(), int64_t{0});
  };
  const StageParameters all = ParametersOfChunk(job_, layers, chunk * job_.parallel.pp + stage_);
  ShardedChunk::Unit others = {.elements = all.total(), .shard = shard_of(all)};
  std::array<std::optional<ShardedChunk::Unit>, 2> of_layers;  // without and with experts
  ShardedChunk sharded;
  for (int64_t place = 0; place < CountOf(chunk); ++place) {
    const int64_t layer = LayerAt(chunk, place);
    ShardedChunk::Unit unit;
    unit.of_root = root_has_ends_ && !IsLayer(chunk, place);
    unit.stays = IsHead(chunk, place);  // its backward pass is next
    if (IsLayer(chunk, place)) {
      auto& known = of_layers[job_.model.IsMoeLayer(layers.begin + layer) ? 1 : 0];
      if (!known.has_value()) {
        const StageParameters parameters = ParametersOfLayer(job_, layers.begin + layer);
        known = {.elements = parameters.total(), .shard = shard_of(parameters)};
      }
      unit = *known;
    } else if (layer < 0) {
      unit.elements = graph::PaddedVocab(job_) * job_.model.hidden / job_.parallel.tp;
      unit.shard = unit.elements * others.shard / std::max<int64_t>(1, others.elements);
    }
    others.elements -= unit.elements;
    others.shard -= unit.shard;
    sharded.units.push_back(unit);
  }
  sharded.units.back().elements += others.elements;
  sharded.units.back().shard += others.shard;
  return sharded;
}

size_t StageUnits::KindOf(const graph::LayerRange& layers, int64_t layer) const {
  return (layer == layers.end - 1 ? 4U : 0U) + (job_.model.IsMoeLayer(layer) ? 2U : 0U) +
         static_cast<size_t>(layer % 2);
}

int64_t StageUnits::LayersOf(int64_t chunk) const {
  const graph::LayerRange& layers = layers_[static_cast<size_t>(chunk)];
  return layers.end - layers.begin;
}

bool StageUnits::EndsModel(int64_t chunk) const {
  return stage_ == job_.parallel.pp - 1 && chunk == job_.parallel.vpp - 1;
}

}  // namespace prism::replayer
