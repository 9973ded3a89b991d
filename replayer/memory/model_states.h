// What a pipeline stage keeps in device memory between iterations: parameters, gradients and the
// optimizer's state, tensor by tensor as the framework lays them out. Bytes are those requested;
// the allocator rounds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "graph/job/unit_parameters.h"
#include "replayer/memory/memory_use.h"

namespace prism::replayer {

// Elements of a stage's parameters on one rank, grouped by what decides how they are stored.
struct StageParameters {
  // A flat buffer of parameters of one kind (grad_buffer.h of the built-in workload): elements in
  // the order of the backward pass.
  struct Kind {
    bool tied = false;               // the embedding that the first and the last stage share
    bool split = false;              // over tp
    bool sequence_parallel = false;  // its gradient is a partial sum over tp
    bool decay = true;
    bool expert = false;            // divided over ep
    std::vector<int64_t> elements;  // by parameter

    [[nodiscard]] int64_t total() const;
  };

  std::vector<Kind> kinds;

  [[nodiscard]] int64_t total() const;
};

// The layers of each of a stage's model chunks, and their total number.
std::vector<graph::LayerRange> LayersOfChunks(const graph::JobSpec& job,
                                              const graph::TrainingStyle& style,
                                              int32_t stage);
int64_t LayersOfStage(const graph::JobSpec& job, const graph::TrainingStyle& style, int32_t stage);

// Parameters of one model chunk; `chunk` counts over the whole pipeline, 0 .. pp * vpp - 1. The
// last one also has the layers that predict further tokens, and, in a pipeline, its own copy of the
// embedding for them.
StageParameters ParametersOfChunk(const graph::JobSpec& job,
                                  graph::LayerRange layers,
                                  int64_t chunk);

// Of one unit, and of one layer, on a rank.
StageParameters ByKind(const graph::UnitParameters& unit);
StageParameters ParametersOfLayer(const graph::JobSpec& job, int64_t layer);

// Elements of their shards on one rank under FSDP, by tensor; the experts count as one tensor.
std::vector<int64_t> ShardsOf(const StageParameters& parameters,
                              const graph::JobSpec& job,
                              const graph::TrainingStyle& style);

// FSDP over PyTorch's own modules; Megatron's FSDP and DeepSpeed have fused ones and their own
// loss.
bool HasTorchModules(const graph::TrainingStyle& style);

// One allocation that persists.
struct StateTensor {
  MemoryUse use = MemoryUse::kOptimizer;
  int64_t bytes = 0;
  bool moment = false;  // of the optimizer: moved if its states are offloaded (graph/job/offload.h)
  std::vector<int64_t> beside = {};  // bytes of temporary tensors present while it is created
};

// The optimizer's tensors in the order in which it makes them: the step count, master copies and
// two moments of the rank's pieces, those with weight decay first, and the weight of each piece in
// the gradient norm (launch/trainer/optimizer.cc).
class OptimizerTensors {
 public:
  // Of a piece with or without weight decay. `moment_bytes`: of one moment.
  void Add(bool decay, int64_t master_bytes, int64_t moment_bytes);

  // The states of a rank: values, gradients, then these.
  [[nodiscard]] std::vector<StateTensor> After(std::vector<StateTensor> values,
                                               const std::vector<StateTensor>& gradients) const;

 private:
  std::array<std::vector<StateTensor>, 2> pieces_;  // with weight decay, without
  int64_t count_ = 0;
};

// What the optimizer's step needs in addition to the states, turn by turn: what one turn holds is
// freed before the next.
//
// DeepSpeed reduces gradients in flat buckets; the sums of its bf16 optimizer are one such bucket,
// cast to 16 bits for the transfer (runtime/bf16_optimizer.py). For fp16 it then copies those that
// the rank updates into one tensor and casts that (runtime/zero/stage_1_and_2.py), without ZeRO it
// casts each and then makes one tensor (runtime/fp16/fused_optimizer.py).
std::vector<std::vector<int64_t>> StepOfStage(const graph::JobSpec& job,
                                              const graph::TrainingStyle& style,
                                              int32_t stage);

// Whole gradients during a backward pass if a rank keeps shards of them (ZeRO 2 of the built-in
// workload): of the bucket being filled and of the one in flight (launch/trainer/grad_scatter.h),
// bytes each. Empty otherwise.
std::vector<int64_t> WholeGradientsOfStage(const graph::JobSpec& job,
                                           const graph::TrainingStyle& style,
                                           int32_t stage);

// Fails for experts and for latent attention under nanotron, which has neither.
Result<std::vector<StateTensor>> StatesOfStage(const graph::JobSpec& job,
                                               const graph::TrainingStyle& style,
                                               int32_t stage);

}  // namespace prism::replayer
