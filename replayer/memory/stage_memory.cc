#include "replayer/memory/stage_memory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "replayer/memory/chunk_passes.h"
#include "replayer/memory/memory_account.h"
#include "replayer/memory/model_states.h"
#include "replayer/memory/nanotron_memory.h"
#include "replayer/memory/offloaded_layers.h"
#include "replayer/memory/sharded_parameters.h"
#include "replayer/memory/stage_passes.h"
#include "replayer/memory/stage_units.h"
#include "replayer/memory/tensor_blocks.h"
#include "replayer/memory/workload_shards.h"

namespace prism::replayer {
namespace {

using graph::JobSpec;
using graph::Schedule;
using graph::TrainingStyle;

// A device that is never full: the question is how much is needed.
constexpr int64_t kDeviceBytes = int64_t{1} << 50;

// Whether all layers keep the same tensors, as an edit of offloaded layers assumes.
bool LayersAlike(const JobSpec& job, const TrainingStyle& style) {
  const bool every_second = job.recompute == graph::Recompute::kSelective &&
                            (style.recompute_parts & graph::kRecomputeEverySecondLayer) != 0;
  return job.model.moe.dense_layers == 0 && job.model.mtp_layers == 0 && !every_second;
}

// States of a stage; moments that live in host memory are not allocated, except those that the
// update has on the device at one time. Returns what the host holds.
int64_t AllocateStates(const std::vector<StateTensor>& states,
                       const HostTier& host,
                       MemoryAccount* account) {
  const bool moves = graph::OffloadsOptimizer(host.what);
  int64_t on_host = 0;
  for (const StateTensor& state : states) {
    if (moves && state.moment) {
      on_host += state.bytes;
      continue;
    }
    MemoryBlocks beside;
    for (const int64_t bytes : state.beside) {
      beside.push_back(account->Allocate(bytes, MemoryUse::kTemporaries));
    }
    account->Allocate(state.bytes, state.use);
    FreeAll(&beside, account);
  }
  if (moves) {
    account->Free(account->Allocate(host.moments_at_once_bytes, MemoryUse::kOptimizer));
  }
  return on_host;
}

template <typename Predicate>
std::vector<StateTensor> Of(const std::vector<StateTensor>& states, Predicate predicate) {
  std::vector<StateTensor> chosen;
  std::copy_if(states.begin(), states.end(), std::back_inserter(chosen), predicate);
  return chosen;
}

void AllocateWorkspaces(const StageMemoryOptions& options, MemoryAccount* account) {
  for (int64_t workspace = 0; workspace < graph::kBlasWorkspaces; ++workspace) {
    account->Allocate(options.workspace_bytes, MemoryUse::kTemporaries);
  }
  for (const int64_t bytes : options.library_workspaces) {
    account->Allocate(bytes, MemoryUse::kTemporaries);
  }
}

// What one turn allocates is freed before the next.
void TakeTurns(const std::vector<std::vector<int64_t>>& turns, MemoryAccount* account) {
  for (const std::vector<int64_t>& turn : turns) {
    MemoryBlocks blocks;
    for (const int64_t bytes : turn) {
      blocks.push_back(account->Allocate(bytes, MemoryUse::kTemporaries));
    }
    FreeAll(&blocks, account);
  }
}

std::vector<ShardedChunk> ShardedChunks(const StageUnits& units, const JobSpec& job) {
  std::vector<ShardedChunk> chunks;
  for (int64_t chunk = 0; chunk < job.parallel.vpp; ++chunk) {
    chunks.push_back(units.Sharded(chunk));
  }
  return chunks;
}

}  // namespace

PendingModel PendingModelOf(const graph::ParameterTable& parameters) {
  constexpr double kSeconds = 1e-9;
  // Calls of a layer of nanotron in both passes: gathers and scatters of two pairs of products (two
  // forward, three backward each), and its kernels.
  constexpr double kCallsOfLayer = 10;
  constexpr double kKernelsOfLayer = 70;
  PendingModel pending;
  pending.collectives = std::llround(parameters.Value("memory.pending_collectives"));
  pending.lag_share = parameters.Value("memory.lag_share");
  pending.host_s = kSeconds * (kCallsOfLayer * parameters.Value("host.collective_ns") +
                               kKernelsOfLayer * parameters.Value("host.kernel_ns"));
  pending.host_rank_s = kSeconds * kCallsOfLayer * parameters.Value("host.collective_rank_ns");
  pending.device_flops = parameters.Value("gpu.peak_bf16_flops") *
                         parameters.Value("gpu.matmul_efficiency") *
                         parameters.Value("gpu.sustained_clock");
  return pending;
}

double MicrobatchesInFlight(const JobSpec& job,
                            const TrainingStyle& style,
                            int32_t stage,
                            int64_t group) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const auto pp = static_cast<double>(job.parallel.pp);
  if (style.schedule == Schedule::kGpipe || style.schedule == Schedule::kLoopedBreadthFirst) {
    return microbatches;
  }
  if (job.parallel.vpp > 1) {
    // Warm-up of Megatron's interleaved schedule, in chunks: 2 (pp - stage - 1) + (vpp - 1) group,
    // plus the one that is running.
    const double of_chunk = group > 0 ? static_cast<double>(group) : pp;
    const double chunks = 2 * (pp - stage - 1) + (job.parallel.vpp - 1) * of_chunk + 1;
    return std::min(microbatches, chunks / job.parallel.vpp);
  }
  return std::min(microbatches, pp - stage);
}

Result<StageMemory> PredictStageMemory(const JobSpec& job,
                                       const TrainingStyle& style,
                                       int32_t stage,
                                       const StageMemoryOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<StateTensor> states, StatesOfStage(job, style, stage));
  if (style.memory == graph::MemoryPattern::kNanotron) {
    return PredictNanotronMemory(job, style, stage, options);
  }
  AllocatorConfig allocator = options.allocator;
  allocator.expandable_segments |= style.expandable_segments;
  MemoryAccount account(allocator, kDeviceBytes);
  AllocateWorkspaces(options, &account);
  // PyTorch allocates moments in the first step, and gradients as it scatters them.
  const bool lazily = IsSharded(job, style) && HasTorchModules(style);
  std::vector<StateTensor> first = states;
  std::vector<StateTensor> of_step;
  if (lazily) {
    first =
        Of(states, [](const StateTensor& state) { return state.use == MemoryUse::kParameters; });
    of_step = Of(states, [](const StateTensor& state) { return state.moment; });
  }
  int64_t moments = AllocateStates(first, options.host, &account);
  const StageUnits units(job, style, stage, options.layers, allocator);
  const double in_flight =
      MicrobatchesInFlight(job, style, stage, options.microbatch_group) * job.parallel.vpp;
  const std::vector<ChunkPass> passes =
      PassesOf(job, options, std::llround(in_flight) - 1, IsSharded(job, style));
  std::optional<OffloadedLayers> offloaded;
  if (graph::OffloadsActivations(options.host.what)) {
    if (!LayersAlike(job, style)) {
      return InvalidArgument("offload of activations is not described where layers differ");
    }
    offloaded.emplace(units, LayerTensors(job, style, 0), passes, options.host.prefetch, &account);
  }
  std::optional<ShardedParameters> sharded;
  if (IsSharded(job, style)) {
    const auto waiting = static_cast<int64_t>(MicrobatchesInFlight(job, style, stage));
    MemoryBlocks messages;
    if (!ShardsByUnit(job, style)) {
      AllocateAll(TorchStageTensors(job, style, stage, waiting), MemoryUse::kActivations, &account,
                  &messages);
    }
    sharded.emplace(job, style, AccumulatesGradients(job), ShardedChunks(units, job), &account);
  }
  for (int64_t iteration = 0; iteration < (lazily ? 2 : 1); ++iteration) {
    if (iteration > 0) {
      moments = AllocateStates(of_step, options.host, &account);
      sharded->BeginIteration();
      if (offloaded.has_value()) {
        offloaded->BeginIteration();
      }
    }
    StagePasses(
        units, job.parallel.vpp,
        {DeferredHeadTensors(job, style), options.deferred_heads,
         offloaded.has_value() ? &*offloaded : nullptr, sharded.has_value() ? &*sharded : nullptr},
        &account)
        .Run(passes, options.every_pass);
  }
  TakeTurns(StepOfStage(job, style, stage), &account);
  PRISM_ASSIGN_OR_RETURN(StageMemory memory, account.Finish());
  memory.host_bytes = moments + (offloaded.has_value() ? offloaded->host_bytes() : 0);
  return memory;
}

}  // namespace prism::replayer
