#include "slicer/synthesize/model_chunks.h"

#include <utility>

#include <fmt/format.h>

#include "graph/stage_layers.h"

namespace prism::slicer {
ModelChunk ChunkMaker::Make(int32_t stage, int32_t chunk) {
  const graph::ParallelSizes& sizes = rank_.job.parallel;
  const int64_t chunks = int64_t{sizes.pp} * sizes.vpp;
  const int64_t index = int64_t{chunk} * sizes.pp + stage;
  ModelChunk result;
  result.first = index == 0;
  result.last = index == chunks - 1;
  UnitPlace place;
  place.shares_embedding = chunks == 1 && rank_.job.model.tied_embeddings;
  const graph::LayerRange layers = graph::LayersOfChunk(rank_.job, rank_.style, index);
  if (result.first) {
    place.gradient_received = !result.last && layers.begin == layers.end;
    result.units.push_back({UnitKind::kEmbedding, "embedding",
                            Add(EmbeddingUnit(rank_, place, &assembly_->tables()))});
  }
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    place.layer = layer;
    place.gradient_received = !result.last && layer + 1 == layers.end;
    result.units.push_back({UnitKind::kLayer, fmt::format("layer {}", layer), Layer(place)});
  }
  if (result.last) {
    AddEnd(&place, &result);
  }
  return result;
}

// Layers that predict further tokens come in front of the head and pass through it themselves.
void ChunkMaker::AddEnd(UnitPlace* place, ModelChunk* chunk) {
  const int64_t further = rank_.job.model.mtp_layers;
  place->gradient_received = false;
  for (int64_t i = 0; i < further; ++i) {
    place->layer = rank_.job.model.layers + i;
    chunk->units.push_back(
        {UnitKind::kLayer, fmt::format("layer {}", place->layer), Layer(*place)});
  }
  UnitBlocks head = HeadUnit(rank_, *place, &assembly_->tables());
  chunk->units.push_back({UnitKind::kHead, "loss", Add(head)});
  // The weights are those of the first one, whose backward pass comes last.
  head.parameters.clear();
  head.backward.ready.clear();
  head.backward_weight.ready.clear();
  head.backward_input.ready.clear();
  for (int64_t i = 0; i < further; ++i) {
    chunk->units.push_back({UnitKind::kHead, "loss", Add(head)});
  }
}

std::shared_ptr<const UnitContent> ChunkMaker::Layer(const UnitPlace& place) {
  const LayerKey key = {rank_.job.model.IsMoeLayer(place.layer), place.layer % 2 == 0,
                        place.gradient_received};
  std::shared_ptr<const UnitContent>& content = layers_[key];
  if (content == nullptr) {
    content = Add(LayerUnit(rank_, place, &assembly_->tables()));
  }
  return content;
}

std::shared_ptr<const UnitContent> ChunkMaker::Add(UnitBlocks blocks) {
  UnitContent content;
  content.blocks = std::move(blocks);
  content.forward = assembly_->AddBlock(content.blocks.forward.program);
  if (rank_.style.schedule == graph::Schedule::kZeroBubble) {
    content.backward_input = assembly_->AddBlock(content.blocks.backward_input.program);
    content.backward_weight = assembly_->AddBlock(content.blocks.backward_weight.program);
  } else {
    content.backward = assembly_->AddBlock(content.blocks.backward.program);
  }
  return std::make_shared<const UnitContent>(std::move(content));
}

}  // namespace prism::slicer
