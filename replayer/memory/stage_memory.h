// Peak memory of a pipeline stage in a steady iteration, from the tensors that its framework holds:
// states (model_states.h) and activations (layer_tensors.h) in the order of the schedule, every one
// a block of the simulated caching allocator.
//
// Each tensor follows from the model's shape and the framework's code; the only fitted numbers are
// how far nanotron's hosts run ahead of their devices (PendingModel).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "graph/job/blas_memory.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/offload.h"
#include "graph/job/training_style.h"
#include "replayer/memory/allocator_config.h"
#include "replayer/memory/layer_tensors.h"

namespace prism::replayer {

// The largest number of micro-batches whose activations a stage holds at once, in units of the
// whole stage's layers: 1F1B holds pp - stage of them; the interleaved schedule 1 + (pp - 1) / (pp
// vpp) times as much (Korthikanti et al. 2022, section 4.2.3); GPipe and looped breadth-first hold
// all. `group`: micro-batches that pass through a chunk before the next chunk begins, 0: as many as
// there are stages (Megatron-Core: --microbatch-group-size-per-virtual-pipeline-stage).
double MicrobatchesInFlight(const graph::JobSpec& job,
                            const graph::TrainingStyle& style,
                            int32_t stage,
                            int64_t group = 0);

// How far nanotron's hosts run ahead of their devices (nanotron_memory.cc): the memory.*
// parameters, and the times that decide who is ahead.
struct PendingModel {
  int64_t collectives = 0;  // issued but not passed if a host is ahead: the depth of its queue
  double lag_share = 1;     // ratio of device time to host time from which hosts are ahead
  double host_s = 0;        // host time of a layer in a pipeline, both passes, one rank
  double host_rank_s = 0;   // what each tensor-parallel rank adds
  double device_flops = 1;  // products of a layer
};

// `parameters` has every key of replayer/cost/parameters.h.
PendingModel PendingModelOf(const graph::ParameterTable& parameters);

// What lives in host memory (slicer/edit/job_offload.h): the moments of the optimizer, and saved
// tensors of layers between their passes.
struct HostTier {
  graph::Offload what = graph::Offload::kNone;
  int64_t prefetch = 1;               // number of layers copied back in advance
  int64_t moments_at_once_bytes = 0;  // on the device during the update
};

struct StageMemoryOptions {
  AllocatorConfig allocator;
  int64_t workspace_bytes = graph::kBlasWorkspaceFromHopper;
  // Additional workspaces that a library keeps, one allocation each (Transformer Engine).
  std::vector<int64_t> library_workspaces;
  // What PyTorch can use: 80 GB minus a context and what NCCL takes. Only nanotron's memory depends
  // on it.
  int64_t device_bytes = int64_t{72} << 30;
  PendingModel pending;
  HostTier host;
  LayerFacts layers;
  // Micro-batches whose weight gradient of the head is deferred to the end of all passes
  // (Megatron-Core: --defer-embedding-wgrad-compute).
  int64_t deferred_heads = 0;
  int64_t microbatch_group = 0;  // of MicrobatchesInFlight
  // Also what changes nothing: passes that repeat others (replayer/memory/pass_repeats.h), and
  // tensors that find room for themselves (replayer/memory/passing_tensors.h).
  bool every_pass = false;
};

struct StageMemory {
  int64_t peak_allocated = 0;               // allocated_bytes.all.peak
  int64_t peak_reserved = 0;                // reserved_bytes.all.peak
  std::vector<graph::MemoryClass> at_peak;  // parameters, gradients, optimizer, activations,
                                            // temporaries; sums to peak_allocated
  int64_t host_bytes = 0;                   // of host memory, peak
};

// Fails for jobs whose states are not modelled (StatesOfStage), for what nanotron_memory.h leaves
// out, and for a rank that would need more than 1 PiB.
Result<StageMemory> PredictStageMemory(const graph::JobSpec& job,
                                       const graph::TrainingStyle& style,
                                       int32_t stage,
                                       const StageMemoryOptions& options = {});

}  // namespace prism::replayer
