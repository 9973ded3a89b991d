#include "replayer/memory/workload_shards.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "graph/job/flat_buckets.h"
#include "graph/job/unit_parameters.h"

namespace prism::replayer {
namespace {

using graph::JobSpec;

constexpr int64_t kFp32ShardBytes = 4;

int64_t Replicas(const JobSpec& job) {
  return int64_t{job.parallel.dp} * job.parallel.cp;
}

// In forward order: embedding, layers, head. If embedding and head share a tied weight, the first
// unit has both.
std::vector<StageParameters> UnitsOfChunk(const JobSpec& job,
                                          graph::LayerRange layers,
                                          int64_t chunk) {
  const bool is_last = chunk == int64_t{job.parallel.pp} * job.parallel.vpp - 1;
  const bool shares_embedding = chunk == 0 && is_last && job.model.tied_embeddings;
  std::vector<graph::UnitParameters> units;
  if (chunk == 0) {
    units.push_back(graph::EmbeddingParameters(job, shares_embedding));
  }
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    units.push_back(graph::LayerParameters(job, layer));
  }
  if (is_last) {
    const graph::UnitParameters head = graph::HeadParameters(job, shares_embedding);
    graph::UnitParameters& unit = shares_embedding ? units.front() : units.emplace_back();
    unit.insert(unit.end(), head.begin(), head.end());
  }
  std::vector<StageParameters> parameters(units.size());
  std::transform(units.begin(), units.end(), parameters.begin(), ByKind);
  return parameters;
}

int64_t ShardOf(const StageParameters::Kind& kind, const JobSpec& job) {
  return graph::PaddedShard(kind.elements, Replicas(job));
}

int64_t ShardOf(const StageParameters& unit, const JobSpec& job) {
  int64_t elements = 0;
  for (const StageParameters::Kind& kind : unit.kinds) {
    elements += ShardOf(kind, job);
  }
  return elements;
}

// Bytes of the unsharded values of a unit, by kind.
std::vector<int64_t> WholeBytes(const StageParameters& unit, const JobSpec& job) {
  std::vector<int64_t> bytes;
  for (const StageParameters::Kind& kind : unit.kinds) {
    bytes.push_back(ShardOf(kind, job) * Replicas(job) * DataTypeBytes(job.compute_dtype));
  }
  return bytes;
}

}  // namespace

bool ShardsByUnit(const JobSpec& job, const graph::TrainingStyle& style) {
  return style.built_in && style.data_parallel == graph::DataParallelKind::kMegatron &&
         job.zero_stage == 3 && Replicas(job) > 1;
}

std::vector<StateTensor> WorkloadShardStates(const JobSpec& job,
                                             const graph::TrainingStyle& style,
                                             int32_t stage) {
  std::vector<StateTensor> states;
  std::vector<StateTensor> gradients;
  OptimizerTensors optimizer;
  const int64_t value_bytes = DataTypeBytes(job.compute_dtype);
  int64_t chunk = stage;
  for (const graph::LayerRange& layers : LayersOfChunks(job, style, stage)) {
    std::map<std::tuple<bool, bool, bool, bool>, int64_t> kinds;
    const std::vector<StageParameters> units = UnitsOfChunk(job, layers, chunk);
    for (const StageParameters& unit : units) {
      for (const int64_t whole : WholeBytes(unit, job)) {
        states.push_back({.use = MemoryUse::kParameters, .beside = {whole}});
      }
    }
    for (const StageParameters& unit : units) {
      states.push_back({.use = MemoryUse::kParameters,
                        .bytes = ShardOf(unit, job) * value_bytes,
                        .beside = WholeBytes(unit, job)});
      for (const StageParameters::Kind& kind : unit.kinds) {
        const int64_t shard = ShardOf(kind, job);
        kinds[{kind.tied, kind.split, kind.sequence_parallel, kind.decay}] += shard;
        optimizer.Add(kind.decay, shard * kFp32ShardBytes, shard * kFp32ShardBytes);
      }
    }
    for (const auto& [kind, elements] : kinds) {
      gradients.push_back({MemoryUse::kGradients, elements * kFp32ShardBytes});
    }
    chunk += job.parallel.pp;
  }
  return optimizer.After(std::move(states), gradients);
}

ShardedChunk WorkloadShardedChunk(const JobSpec& job, graph::LayerRange layers, int64_t chunk) {
  const int64_t last = int64_t{job.parallel.pp} * job.parallel.vpp - 1;
  ShardedChunk result;
  for (const StageParameters& parameters : UnitsOfChunk(job, layers, chunk)) {
    const int64_t shard = ShardOf(parameters, job);
    result.units.push_back({.elements = shard * Replicas(job), .shard = shard});
  }
  if (chunk == last && chunk == 0 && job.model.tied_embeddings) {
    result.units.push_back({});
    result.units.front().of_root = result.units.back().of_root = true;
  }
  result.units.back().stays = chunk == last && job.parallel.pp == 1;
  if (chunk != last) {
    result.units.push_back({});  // the boundary of the stage has no parameters
  }
  return result;
}

}  // namespace prism::replayer
