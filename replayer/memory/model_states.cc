#include "replayer/memory/model_states.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "graph/base/divide.h"
#include "graph/job/flat_buckets.h"
#include "graph/job/stage_layers.h"
#include "replayer/memory/workload_shards.h"

namespace prism::replayer {
namespace {

using graph::DataParallelKind;
using graph::JobSpec;
using graph::TrainingStyle;

// What AdamW keeps in float32: the master copy and two moments.
constexpr int64_t kMasterBytes = 4;
constexpr int64_t kMomentBytes = 4;
constexpr int64_t kScalarBytes = 4;

// Groups parameters by kind.
class Kinds {
 public:
  // Each expert's come after those of the expert before.
  void Add(const graph::UnitParameters& unit) {
    int64_t experts = 0;
    for (const graph::UnitParameter& parameter : unit) {
      experts = std::max(experts, parameter.expert ? parameter.count : 0);
      if (!parameter.expert) {
        Add(parameter);
      }
    }
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (const graph::UnitParameter& parameter : unit) {
        if (parameter.expert) {
          Add(parameter);
        }
      }
    }
  }

  // Flat buffers begin with the parameters that backward reaches first.
  [[nodiscard]] StageParameters Finish() const {
    StageParameters parameters;
    for (size_t number = 0; number < kinds_.size(); ++number) {
      const std::vector<int64_t>& elements = kinds_[number];
      const auto has = [&](size_t bit) { return (number & bit) != 0; };
      if (!elements.empty()) {
        parameters.kinds.push_back({has(16), has(8), has(4), has(2), has(1),
                                    std::vector<int64_t>(elements.rbegin(), elements.rend())});
      }
    }
    return parameters;
  }

 private:
  void Add(const graph::UnitParameter& of) {
    const size_t number = (of.tied ? 16U : 0U) + (of.split && !of.expert ? 8U : 0U) +
                          (of.sequence_parallel ? 4U : 0U) + (of.decay ? 2U : 0U) +
                          (of.expert ? 1U : 0U);
    kinds_[number].push_back(of.outputs * of.inputs);
  }

  // By bits: tied, split, sequence parallel, decay, expert.
  std::array<std::vector<int64_t>, 32> kinds_;
};

std::vector<StageParameters> ChunksOfStage(const JobSpec& job,
                                           const TrainingStyle& style,
                                           int32_t stage) {
  std::vector<StageParameters> chunks;
  int64_t chunk = stage;
  for (const graph::LayerRange& layers : LayersOfChunks(job, style, stage)) {
    chunks.push_back(ParametersOfChunk(job, layers, chunk));
    chunk += job.parallel.pp;
  }
  return chunks;
}

// Ranks that hold the same parameters.
int64_t ReplicasOf(const graph::ParallelSizes& sizes, bool expert) {
  const int64_t replicas = int64_t{sizes.dp} * sizes.cp;
  return expert ? std::max<int64_t>(1, replicas * sizes.tp / (int64_t{sizes.ep} * sizes.etp))
                : replicas;
}

// Ranks that share one set of them in shards: all that hold the same, or those of a sharding group.
int64_t ShardCount(const JobSpec& job, const TrainingStyle& style, bool expert) {
  const int64_t replicas = ReplicasOf(job.parallel, expert);
  return style.shard_size == 0
             ? replicas
             : std::max<int64_t>(
                   1, replicas * style.shard_size / ReplicasOf(job.parallel, /*expert=*/false));
}

int64_t ElementsOf(const std::vector<StageParameters>& chunks, bool expert) {
  int64_t elements = 0;
  for (const StageParameters& chunk : chunks) {
    for (const StageParameters::Kind& kind : chunk.kinds) {
      elements += kind.expert == expert ? kind.total() : 0;
    }
  }
  return elements;
}

// ZeRO 2 of the built-in workload (launch/trainer/grad_buffer.h).
bool ScattersGradients(const JobSpec& job, const TrainingStyle& style) {
  return style.built_in && job.zero_stage == 2;
}

graph::FlatBuckets BucketsOf(const StageParameters::Kind& kind,
                             const JobSpec& job,
                             const TrainingStyle& style) {
  graph::FlatBuckets flat(graph::BucketStyle(style, ScattersGradients(job, style)),
                          ReplicasOf(job.parallel, kind.expert));
  for (const int64_t elements : kind.elements) {
    flat.Append(elements);
  }
  flat.Finish();
  return flat;
}

// Elements of the adapters of a stage's linear layers: two matrices each, of the attention and, if
// so chosen, of the feed-forward or of every expert that a rank holds.
int64_t AdapterElements(const JobSpec& job, const TrainingStyle& style, int32_t stage) {
  const graph::ModelSpec& model = job.model;
  const graph::MoeShape& moe = model.moe;
  const int64_t attention = model.heads * model.HeadDim();
  const int64_t keys = model.kv_heads * model.HeadDim();
  const int64_t branches = model.block == graph::BlockKind::kLlama ? 2 : 1;
  const int64_t of_attention = 4 * model.hidden + 2 * attention + 2 * keys;
  int64_t elements = 0;
  for (const graph::LayerRange& layers : LayersOfChunks(job, style, stage)) {
    for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
      const bool experts = model.IsMoeLayer(layer);
      const int64_t width = experts ? moe.expert_ffn : model.ffn;
      const int64_t copies = experts ? moe.experts / job.parallel.ep : 1;
      elements += of_attention;
      elements += style.adapters_of_all ? copies * (branches + 1) * (model.hidden + width) : 0;
    }
  }
  return elements * style.adapter_rank * style.adapter_sets / job.parallel.tp;
}

// The optimizer's tensors are those of the adapters alone.
std::vector<StateTensor> FrozenStates(int64_t weights,
                                      int64_t adapters,
                                      const JobSpec& job,
                                      const TrainingStyle& style) {
  const bool wide = HasTorchModules(style);
  return {
      {MemoryUse::kParameters, weights * (wide ? kMasterBytes : DataTypeBytes(job.compute_dtype))},
      {MemoryUse::kParameters, adapters * kMasterBytes},
      {MemoryUse::kGradients, adapters * kMasterBytes},
      {MemoryUse::kOptimizer, adapters * kMomentBytes, true},
      {MemoryUse::kOptimizer, adapters * kMomentBytes, true}};
}

// Flat buffers of values, then of gradients, then the optimizer's tensors, whose pieces are the
// rank's shards of buckets.
std::vector<StateTensor> MegatronStates(const std::vector<StageParameters>& chunks,
                                        const JobSpec& job,
                                        const TrainingStyle& style) {
  std::vector<StateTensor> values;
  std::vector<StateTensor> gradients;
  OptimizerTensors optimizer;
  for (const StageParameters& chunk : chunks) {
    for (const StageParameters::Kind& kind : chunk.kinds) {
      const int64_t dp = ReplicasOf(job.parallel, kind.expert);
      const int64_t shards = job.zero_stage >= 1 ? ShardCount(job, style, kind.expert) : 1;
      const bool scatters =
          style.data_parallel == DataParallelKind::kZero2 || ScattersGradients(job, style);
      const int64_t grad_shards = scatters ? dp : 1;
      const graph::FlatBuckets flat = BucketsOf(kind, job, style);
      const int64_t elements = flat.elements();
      values.push_back({MemoryUse::kParameters, elements * DataTypeBytes(job.compute_dtype)});
      gradients.push_back(
          {MemoryUse::kGradients, elements / grad_shards * DataTypeBytes(style.gradient_type)});
      if (style.separate_fp32_gradients) {
        gradients.push_back({MemoryUse::kGradients, elements * DataTypeBytes(job.compute_dtype)});
      }
      for (const graph::FlatBuckets::Bucket& bucket : flat.buckets()) {
        const int64_t own = bucket.elements() / shards;
        optimizer.Add(kind.decay, own * kMasterBytes, own * kMomentBytes);
      }
    }
  }
  return optimizer.After(std::move(values), gradients);
}

// nanotron/optim/gradient_accumulator.py and zero.py: gradients accumulate in one flat float32
// buffer of all parameters at any ZeRO stage; master copy and moments are those of the rank's
// shard. Without ZeRO DistributedDataParallel also keeps buckets of 16-bit gradients.
std::vector<StateTensor> NanotronStates(int64_t elements, const JobSpec& job) {
  const int64_t value_bytes = DataTypeBytes(job.compute_dtype);
  const int64_t own = DivideUp<int64_t>(elements, job.zero_stage >= 1 ? job.parallel.dp : 1);
  std::vector<StateTensor> states = {{MemoryUse::kParameters, elements * value_bytes},
                                     {MemoryUse::kGradients, elements * kMasterBytes},
                                     {MemoryUse::kOptimizer, own * kMasterBytes},
                                     {MemoryUse::kOptimizer, own * kMomentBytes},
                                     {MemoryUse::kOptimizer, own * kMomentBytes}};
  if (job.parallel.dp > 1 && job.zero_stage == 0) {
    states.push_back({MemoryUse::kGradients, elements * value_bytes});
  }
  return states;
}

// FSDP2 with mixed precision: float32 shards of parameters, gradients and both moments
// (torch/distributed/fsdp/_fully_shard). What is gathered or not yet scattered is temporary
// (sharded_parameters.h). Megatron's own FSDP and DeepSpeed also keep 16-bit shards, and gather
// those.
std::vector<StateTensor> FsdpStates(const std::vector<StageParameters>& chunks,
                                    const JobSpec& job,
                                    const TrainingStyle& style) {
  std::vector<int64_t> shards;
  for (const StageParameters& chunk : chunks) {
    const std::vector<int64_t> of_chunk = ShardsOf(chunk, job, style);
    shards.insert(shards.end(), of_chunk.begin(), of_chunk.end());
  }
  constexpr size_t kTensorsOfShard = 5;  // at most
  std::vector<StateTensor> states;
  states.reserve(kTensorsOfShard * shards.size());
  const auto add = [&](const StateTensor& of_element) {
    for (const int64_t shard : shards) {
      states.push_back(of_element);
      states.back().bytes *= shard;
    }
  };
  add({MemoryUse::kParameters, kMasterBytes});
  if (!HasTorchModules(style)) {
    add({MemoryUse::kParameters, DataTypeBytes(job.compute_dtype)});
  }
  add({MemoryUse::kGradients, kMasterBytes});
  add({MemoryUse::kOptimizer, kMomentBytes, true});
  add({MemoryUse::kOptimizer, kMomentBytes, true});
  return states;
}

}  // namespace

bool HasTorchModules(const TrainingStyle& style) {
  return style.data_parallel == DataParallelKind::kFsdp && !style.fused_norm;
}

int64_t StageParameters::Kind::total() const {
  return std::accumulate(elements.begin(), elements.end(), int64_t{0});
}

int64_t StageParameters::total() const {
  return std::accumulate(kinds.begin(), kinds.end(), int64_t{0},
                         [](int64_t sum, const Kind& kind) { return sum + kind.total(); });
}

std::vector<graph::LayerRange> LayersOfChunks(const JobSpec& job,
                                              const TrainingStyle& style,
                                              int32_t stage) {
  std::vector<graph::LayerRange> layers;
  for (int64_t chunk = 0; chunk < job.parallel.vpp; ++chunk) {
    layers.push_back(graph::LayersOfChunk(job, style, chunk * job.parallel.pp + stage));
  }
  return layers;
}

int64_t LayersOfStage(const JobSpec& job, const TrainingStyle& style, int32_t stage) {
  int64_t count = 0;
  for (const graph::LayerRange& layers : LayersOfChunks(job, style, stage)) {
    count += layers.end - layers.begin;
  }
  return count;
}

StageParameters ParametersOfChunk(const JobSpec& job, graph::LayerRange layers, int64_t chunk) {
  const graph::ModelSpec& model = job.model;
  const bool is_first = chunk == 0;
  const bool is_last = chunk == int64_t{job.parallel.pp} * job.parallel.vpp - 1;
  const bool shares_embedding = is_first && is_last && model.tied_embeddings;
  Kinds kinds;
  if (is_first) {
    kinds.Add(graph::EmbeddingParameters(job, shares_embedding));
  }
  for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
    kinds.Add(graph::LayerParameters(job, layer));
  }
  if (is_last) {
    if (model.mtp_layers > 0 && job.parallel.pp > 1 && !model.tied_embeddings) {
      graph::UnitParameter words = graph::EmbeddingParameters(job, shares_embedding).front();
      words.tied = true;
      kinds.Add(graph::UnitParameters{words});
    }
    for (int64_t i = 0; i < model.mtp_layers; ++i) {
      kinds.Add(graph::FurtherLayerParameters(job, model.layers + i));
    }
    kinds.Add(graph::HeadParameters(job, shares_embedding));
  }
  return kinds.Finish();
}

StageParameters ByKind(const graph::UnitParameters& unit) {
  Kinds kinds;
  kinds.Add(unit);
  return kinds.Finish();
}

StageParameters ParametersOfLayer(const JobSpec& job, int64_t layer) {
  return ByKind(graph::LayerParameters(job, layer));
}

std::vector<int64_t> ShardsOf(const StageParameters& parameters,
                              const JobSpec& job,
                              const TrainingStyle& style) {
  const int64_t dp = ShardCount(job, style, false);
  const int64_t of_expert = ShardCount(job, style, true);
  std::vector<int64_t> shards;
  int64_t of_experts = 0;
  for (const StageParameters::Kind& kind : parameters.kinds) {
    if (kind.expert) {
      of_experts += DivideUp<int64_t>(kind.total(), of_expert);
      continue;
    }
    for (const int64_t elements : kind.elements) {
      shards.push_back(DivideUp(elements, dp));
    }
  }
  if (of_experts > 0) {
    shards.push_back(of_experts);
  }
  return shards;
}

void OptimizerTensors::Add(bool decay, int64_t master_bytes, int64_t moment_bytes) {
  std::vector<StateTensor>& pieces = pieces_[decay ? 0 : 1];
  pieces.push_back({MemoryUse::kOptimizer, master_bytes});
  pieces.insert(pieces.end(), 2, {MemoryUse::kOptimizer, moment_bytes, true});
  ++count_;
}

std::vector<StateTensor> OptimizerTensors::After(std::vector<StateTensor> values,
                                                 const std::vector<StateTensor>& gradients) const {
  std::vector<StateTensor> states = std::move(values);
  states.insert(states.end(), gradients.begin(), gradients.end());
  states.push_back({MemoryUse::kOptimizer, kScalarBytes});
  for (const std::vector<StateTensor>& pieces : pieces_) {
    states.insert(states.end(), pieces.begin(), pieces.end());
  }
  states.push_back({MemoryUse::kOptimizer, count_ * kScalarBytes});
  return states;
}

std::vector<std::vector<int64_t>> StepOfStage(const JobSpec& job,
                                              const TrainingStyle& style,
                                              int32_t stage) {
  if (style.memory != graph::MemoryPattern::kDeepSpeed ||
      style.data_parallel == DataParallelKind::kFsdp) {
    return {};
  }
  const std::vector<StageParameters> chunks = ChunksOfStage(job, style, stage);
  const int64_t elements = ElementsOf(chunks, false) + ElementsOf(chunks, true);
  const int64_t value_bytes = DataTypeBytes(job.compute_dtype);
  std::vector<std::vector<int64_t>> turns;
  if (job.parallel.dp > 1) {
    // The bf16 optimizer passes the fp32 sums as one tensor, which is cast whole.
    const int64_t bucket = style.separate_fp32_gradients ? elements : style.bucket_elements;
    turns.push_back({std::min(elements, bucket) * value_bytes});
  }
  if (style.gradient_type == DataType::kFloat16) {
    const int64_t own = DivideUp<int64_t>(elements, job.zero_stage >= 1 ? job.parallel.dp : 1);
    turns.push_back({own * (job.zero_stage >= 1 ? value_bytes : kMasterBytes), own * kMasterBytes});
  }
  return turns;
}

std::vector<int64_t> WholeGradientsOfStage(const JobSpec& job,
                                           const TrainingStyle& style,
                                           int32_t stage) {
  std::vector<int64_t> whole;
  if (!ScattersGradients(job, style)) {
    return whole;
  }
  for (const StageParameters& chunk : ChunksOfStage(job, style, stage)) {
    for (const StageParameters::Kind& kind : chunk.kinds) {
      if (ReplicasOf(job.parallel, kind.expert) == 1) {
        continue;
      }
      const graph::FlatBuckets flat = BucketsOf(kind, job, style);
      for (const graph::FlatBuckets::Bucket& bucket : flat.buckets()) {
        whole.push_back(bucket.elements() * DataTypeBytes(style.gradient_type));
      }
    }
  }
  constexpr size_t kAtOnce = 2;
  std::sort(whole.rbegin(), whole.rend());
  return {whole.begin(),
          whole.begin() + static_cast<std::ptrdiff_t>(std::min(whole.size(), kAtOnce))};
}

Result<std::vector<StateTensor>> StatesOfStage(const JobSpec& job,
                                               const TrainingStyle& style,
                                               int32_t stage) {
  const bool unlike_llama = job.model.moe.experts > 0 || job.model.latent.kv_rank > 0;
  if (unlike_llama && style.memory == graph::MemoryPattern::kNanotron) {
    return InvalidArgument("memory of experts and latent attention under nanotron is not modelled");
  }
  const std::vector<StageParameters> chunks = ChunksOfStage(job, style, stage);
  if (style.memory == graph::MemoryPattern::kNanotron) {
    return NanotronStates(ElementsOf(chunks, false), job);
  }
  if (ShardsByUnit(job, style)) {
    return WorkloadShardStates(job, style, stage);
  }
  const bool shards = style.data_parallel == DataParallelKind::kFsdp;
  if (style.frozen_weights) {
    const int64_t replicas = shards ? ShardCount(job, style, /*expert=*/false) : 1;
    const int64_t of_expert = shards ? ShardCount(job, style, /*expert=*/true) : 1;
    const int64_t weights =
        ElementsOf(chunks, false) / replicas + ElementsOf(chunks, true) / of_expert;
    return FrozenStates(weights, AdapterElements(job, style, stage) / replicas, job, style);
  }
  if (shards) {
    return FsdpStates(chunks, job, style);
  }
  return MegatronStates(chunks, job, style);
}

}  // namespace prism::replayer
