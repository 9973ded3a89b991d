#include "slicer/synthesize/model_chunks.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/job/stage_layers.h"

namespace prism::slicer {
namespace {

uint32_t Bits(bool first, bool second, bool third) {
  return (first ? 1U : 0U) + (second ? 2U : 0U) + (third ? 4U : 0U);
}

}  // namespace

std::string ChunkUnit::Marker() const {
  switch (kind) {
    case UnitKind::kEmbedding:
      return "embedding";
    case UnitKind::kLayer:
      return fmt::format("layer {}", layer);
    case UnitKind::kHead:
      return "loss";
  }
  return "";
}

bool HaveSameContent(const ModelChunk& a, const ModelChunk& b) {
  const auto same = [](const ChunkUnit& x, const ChunkUnit& y) {
    return x.kind == y.kind && x.content == y.content;
  };
  return a.first == b.first && a.last == b.last &&
         std::equal(a.units.begin(), a.units.end(), b.units.begin(), b.units.end(), same);
}

// For a mixture of experts the number of replicas that share the experts is kept.
graph::JobSpec UnitJob(const graph::JobSpec& job) {
  graph::JobSpec unit = job;
  unit.parallel.pp = 1;
  unit.parallel.vpp = 1;
  unit.parallel.dp = job.model.moe.experts > 0 ? job.parallel.dp : 1;
  unit.global_batch_size = 0;
  unit.zero_stage = 0;
  return unit;
}

graph::TrainingStyle UnitStyle(const graph::TrainingStyle& style) {
  const graph::TrainingStyle none;
  graph::TrainingStyle unit = style;
  unit.framework = none.framework;
  unit.layers_from_front = none.layers_from_front;
  unit.balanced_stages = none.balanced_stages;
  unit.overlap_p2p = none.overlap_p2p;
  unit.scatter_gather_p2p = none.scatter_gather_p2p;
  unit.serial_p2p = none.serial_p2p;
  unit.overlap_grad_reduce = none.overlap_grad_reduce;
  unit.overlap_param_gather = none.overlap_param_gather;
  unit.memory = none.memory;
  unit.bucket_elements = none.bucket_elements;
  unit.bucket_elements_per_rank = none.bucket_elements_per_rank;
  unit.shard_size = none.shard_size;
  unit.reshard_after_forward = none.reshard_after_forward;
  unit.prefetch = none.prefetch;
  unit.gradient_norm = none.gradient_norm;
  unit.fused_optimizer = none.fused_optimizer;
  unit.loss_scaling = none.loss_scaling;
  return unit;
}

template <typename MakeBlocks>
const UnitContent* ChunkMaker::Find(UnitKind kind, uint32_t place, MakeBlocks make) {
  const auto [found, inserted] = units_.try_emplace({kind, place});
  if (inserted) {
    found->second = Add(make());
  }
  return &found->second;
}

ModelChunk ChunkMaker::Make(const RankShape& whole, int32_t stage, int32_t chunk) {
  const graph::JobSpec& job = whole.job;
  const graph::ParallelSizes& sizes = job.parallel;
  const int64_t chunks = int64_t{sizes.pp} * sizes.vpp;
  const int64_t index = int64_t{chunk} * sizes.pp + stage;
  ModelChunk result;
  result.first = index == 0;
  result.last = index == chunks - 1;
  UnitPlace place;
  place.shares_embedding = chunks == 1 && job.model.tied_embeddings;
  const graph::LayerRange layers = graph::LayersOfChunk(job, whole.style, index);
  result.units.reserve(static_cast<size_t>(layers.end - layers.begin) + 2);
  if (result.first) {
    place.gradient_received = !result.last && layers.begin == layers.end;
    const uint32_t bits = Bits(place.shares_embedding, place.gradient_received, false);
    result.units.push_back({UnitKind::kEmbedding, 0, Find(UnitKind::kEmbedding, bits, [&] {
                              return EmbeddingUnit(rank_, place, &assembly_->tables());
                            })});
  }
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    place.layer = layer;
    place.gradient_received = !result.last && layer + 1 == layers.end;
    result.units.push_back({UnitKind::kLayer, layer, Layer(place)});
  }
  if (result.last) {
    AddEnd(&place, &result);
  }
  return result;
}

// Layers that predict further tokens come before the head and use it too.
void ChunkMaker::AddEnd(UnitPlace* place, ModelChunk* chunk) {
  const int64_t further = rank_.job.model.mtp_layers;
  place->gradient_received = false;
  for (int64_t i = 0; i < further; ++i) {
    place->layer = rank_.job.model.layers + i;
    chunk->units.push_back({UnitKind::kLayer, place->layer, Layer(*place)});
  }
  // All use the weights of the first one, whose backward pass comes last.
  for (int64_t i = 0; i < 1 + further; ++i) {
    const uint32_t bits = Bits(place->shares_embedding, i > 0, false);
    chunk->units.push_back({UnitKind::kHead, 0, Find(UnitKind::kHead, bits, [&] {
                              UnitBlocks head = HeadUnit(rank_, *place, &assembly_->tables());
                              if (i > 0) {
                                head.parameters.clear();
                                head.backward.ready.clear();
                                head.backward_weight.ready.clear();
                                head.backward_input.ready.clear();
                              }
                              return head;
                            })});
  }
}

// What distinguishes the layers of a model: kind of feed-forward, place in a period of two if there
// is one, whether the gradient comes from another stage.
const UnitContent* ChunkMaker::Layer(const UnitPlace& place) {
  const bool alternate =
      rank_.job.model.sliding_window > 0 || rank_.Recomputes(graph::kRecomputeEverySecondLayer);
  const uint32_t bits = Bits(rank_.job.model.IsMoeLayer(place.layer),
                             alternate && place.layer % 2 == 0, place.gradient_received) +
                        (place.shares_embedding ? 8U : 0U);
  return Find(UnitKind::kLayer, bits,
              [&] { return LayerUnit(rank_, place, &assembly_->tables()); });
}

UnitContent ChunkMaker::Add(UnitBlocks blocks) {
  UnitContent content;
  content.blocks = std::move(blocks);
  content.forward = assembly_->AddBlock(content.blocks.forward.program);
  if (rank_.style.schedule == graph::Schedule::kZeroBubble) {
    content.backward_input = assembly_->AddBlock(content.blocks.backward_input.program);
    content.backward_weight = assembly_->AddBlock(content.blocks.backward_weight.program);
  } else {
    content.backward = assembly_->AddBlock(content.blocks.backward.program);
  }
  return content;
}

}  // namespace prism::slicer
