#include "experiments/published/row_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "replayer/memory/device_memory.h"
#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/stage_memory.h"

#include "experiments/published/row_arguments.h"
#include "experiments/published/row_style.h"

namespace prism::launch {
namespace {

// CUBLAS_WORKSPACE_CONFIG=:4096:8, which PyTorch's deterministic algorithms require.
constexpr int64_t kDeterministicWorkspace = int64_t{8 * 4096} << 10;

constexpr EnumNames<uint32_t, 7> kOffloadNames = {
    {{replayer::kOffloadAttentionNorm, "attn_norm"},
     {replayer::kOffloadProjections, "qkv_linear"},
     {replayer::kOffloadCoreAttention, "core_attn"},
     {replayer::kOffloadOutputProjection, "attn_proj"},
     {replayer::kOffloadMlpNorm, "mlp_norm"},
     {replayer::kOffloadExpertInput, "expert_fc1"},
     {replayer::kOffloadExpertActivation, "moe_act"}}};

uint32_t OffloadedParts(const PublishedRow& row) {
  return HasArgument(row, "fine-grained-activation-offloading")
             ? row.Parts("offload", kOffloadNames)
             : 0U;
}

// No limit, or 0: of all micro-batches.
int64_t DeferredHeads(const PublishedRow& row) {
  constexpr int64_t kAll = 1 << 20;
  return HasArgument(row, "defer-embedding-wgrad-compute")
             ? IntegerArgument(row, "wgrad-deferral-limit", kAll)
             : 0;
}

// Until CUDA 11.7 all kernels of all libraries were loaded at the start: what PyTorch 1.13 took in
// addition to what it takes with lazy loading (its pull request 86509).
constexpr int64_t kEagerModules = 666'632'192 - 287'047'680;

int64_t EagerModules(const PublishedRow& row) {
  const Framework& framework = FrameworkOfRow(row);
  const bool early = framework == kMegatronLm || framework == kMegatronDeepSpeed;
  return early ? kEagerModules : 0;
}

// Transformer Engine has its own workspace for products, and one per stream for those of all
// experts at once (transformer_engine/pytorch/cpp_extensions/gemm.py). Megatron's own layers do not
// use it, except for its router.
std::vector<int64_t> EngineWorkspaces(const PublishedRow& row,
                                      const graph::JobSpec& job,
                                      const graph::ClusterSpec& cluster) {
  constexpr int64_t kBeforeHopper = 4 << 20;
  constexpr int64_t kFromHopper = 32 << 20;
  constexpr size_t kStreams = 4;
  const bool has_experts = job.model.moe.experts > 0;
  const bool own_layers = StatesArguments(row) && row.Extra("transformer_impl") == "local";
  if (FrameworkOfRow(row) != kMegatronCore || (own_layers && !has_experts)) {
    return {};
  }
  const bool grouped =
      has_experts && (!StatesArguments(row) || HasArgument(row, "moe-grouped-gemm"));
  return std::vector<int64_t>(1 + (grouped ? kStreams : 0),
                              cluster.gpu.compute_major < 9 ? kBeforeHopper : kFromHopper);
}

enum class Counter : uint8_t { kAllocated, kReserved, kDevice };

constexpr EnumNames<Counter, 3> kCounterNames = {{{Counter::kAllocated, "allocated"},
                                                  {Counter::kReserved, "reserved"},
                                                  {Counter::kDevice, "device"}}};

// nanotron's benchmark resets the peaks after the passes and reads them after the optimizer's step,
// so what it prints, which grows with the activations, is reserved memory.
Counter CounterOf(const PublishedRow& row) {
  return FrameworkOfRow(row) == kNanotron
             ? Counter::kReserved
             : row.Meant("counter", kCounterNames).value_or(Counter::kAllocated);
}

// Device memory available to PyTorch on a rank of the stage.
int64_t DeviceBytes(const graph::ClusterSpec& cluster, const graph::JobSpec& job, int32_t stage) {
  const graph::ParallelSizes& sizes = job.parallel;
  const bool spans_nodes = sizes.tp * sizes.cp * sizes.dp > cluster.gpus_per_node;
  const auto of_groups =
      static_cast<int64_t>(cluster.parameters.Value("memory.network_groups_bytes"));
  return cluster.gpu.memory_bytes - replayer::OutsideAllocatorBytes(cluster, job, stage) -
         (spans_nodes ? of_groups : 0);
}

// Interleaving as in the row, whatever its number of micro-batches: its time is predicted with a
// schedule without groups.
void UseGroups(const PublishedRow& row,
               graph::JobSpec* job,
               replayer::StageMemoryOptions* options) {
  const int64_t chunks = row.Integer("vpp").value_or(1);
  if (chunks * job->parallel.pp <= job->model.layers + 2) {
    job->parallel.vpp = static_cast<int32_t>(chunks);
    return;
  }
  options->microbatch_group = 0;
  row.Assume("groups of micro-batches: left out, more chunks than layers");
}

int64_t BytesOf(const replayer::StageMemory& memory, int64_t outside_bytes, Counter counter) {
  switch (counter) {
    case Counter::kAllocated:
      return memory.peak_allocated;
    case Counter::kReserved:
      return memory.peak_reserved;
    case Counter::kDevice:
      return memory.peak_reserved + outside_bytes;
  }
  return 0;
}

}  // namespace

Result<double> PredictedBytes(const PublishedRow& row,
                              const graph::JobSpec& job,
                              const graph::TrainingStyle& style,
                              const graph::ClusterSpec& cluster) {
  if (row.Is("second stack")) {
    return InvalidArgument("memory of models of two stacks is not modelled");
  }
  if (HasArgument(row, "export-kd-cfg") || HasArgument(row, "export-kd-teacher-load")) {
    return InvalidArgument("memory of a teacher beside the model is not modelled");
  }
  replayer::StageMemoryOptions options = replayer::MemoryOptionsOf(cluster);
  if (HasArgument(row, "deterministic-mode")) {
    options.workspace_bytes = kDeterministicWorkspace;
  }
  options.library_workspaces = EngineWorkspaces(row, job, cluster);
  options.layers = {OffloadedParts(row), HasArgument(row, "qk-layernorm")};
  options.deferred_heads = DeferredHeads(row);
  graph::JobSpec as_run = job;
  options.microbatch_group =
      IntegerArgument(row, "microbatch-group-size-per-virtual-pipeline-stage", 0);
  if (options.microbatch_group > 0) {
    UseGroups(row, &as_run, &options);
  }
  // Each instance of the distributed optimizer divides states over its part of the replicas.
  graph::TrainingStyle style_as_run = style;
  const int64_t replicas = int64_t{job.parallel.dp} * job.parallel.cp;
  const int64_t instances = IntegerArgument(row, "num-distributed-optimizer-instances", 1);
  if (instances > 1 && style.data_parallel == graph::DataParallelKind::kMegatron) {
    style_as_run.shard_size = static_cast<int32_t>(std::max<int64_t>(1, replicas / instances));
  }
  const Counter counter = CounterOf(row);
  const int32_t last = job.parallel.pp - 1;
  const bool only_last = row.Is("last rank");
  const bool only_first = row.Is("rank 0");
  int64_t most = 0;
  for (int32_t stage = only_last ? last : 0; stage <= (only_first ? 0 : last); ++stage) {
    options.device_bytes = DeviceBytes(cluster, job, stage);
    PRISM_ASSIGN_OR_RETURN(const replayer::StageMemory memory,
                           replayer::PredictStageMemory(as_run, style_as_run, stage, options));
    const int64_t outside =
        replayer::OutsideAllocatorBytes(cluster, job, stage) + EagerModules(row);
    most = std::max(most, BytesOf(memory, outside, counter));
  }
  if (counter == Counter::kReserved && row.Is("names allocated")) {
    row.Assume("memory: reserved, as the benchmark's code has it");
  }
  if (counter == Counter::kDevice) {
    row.Assume("memory: contexts and NCCL's buffers as of today's versions");
  }
  return static_cast<double>(most);
}

}  // namespace prism::launch
