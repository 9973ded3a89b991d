// What a pipeline stage keeps in device memory between iterations: parameters, gradients and the
// optimizer's state, tensor by tensor as the framework lays them out. Bytes are those asked for;
// the allocator rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job.h"
#include "graph/training_style.h"

namespace prism::replayer {

// Elements of a stage's parameters on one rank, by what decides how they are stored.
struct StageParameters {
  // A flat buffer of parameters of one kind (grad_buffer.h of the built-in workload): elements in
  // the order of the backward pass.
  struct Kind {
    bool tied = false;               // the embedding that first and last stage share
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

// The layers of each of a stage's model chunks, and how many they are in all.
std::vector<graph::LayerRange> LayersOfChunks(const graph::JobSpec& job,
                                              const graph::TrainingStyle& style,
                                              int32_t stage);
int64_t LayersOfStage(const graph::JobSpec& job, const graph::TrainingStyle& style, int32_t stage);

// Parameters of one model chunk; `chunk` counts over the whole pipeline, 0 .. pp * vpp - 1. The
// last one has the layers that predict further tokens, and after a pipeline words of its own for
// them.
StageParameters ParametersOfChunk(const graph::JobSpec& job,
                                  graph::LayerRange layers,
                                  int64_t chunk);

// Of one layer on a rank.
StageParameters ParametersOfLayer(const graph::JobSpec& job, int64_t layer);

// Elements of their shards on one rank under FSDP, by tensor; those of experts are one.
std::vector<int64_t> ShardsOf(const StageParameters& parameters,
                              const graph::JobSpec& job,
                              const graph::TrainingStyle& style);

// FSDP over PyTorch's own modules; Megatron's FSDP and DeepSpeed have fused ones, and a loss of
// their own.
bool HasTorchModules(const graph::TrainingStyle& style);

// One allocation that lives on.
struct StateTensor {
  std::string memory_class;  // "parameters", "gradients", "optimizer"
  int64_t bytes = 0;
  bool moment = false;  // of the optimizer: what an offload of its states moves (graph/offload.h)
  std::vector<int64_t> beside = {};  // bytes of tensors that are there while it is made
};

// What the optimizer's step needs beside the states, in turns: what one holds is freed before the
// next.
//
// DeepSpeed reduces gradients in flat buckets; its bf16 optimizer's sums are one, cast to 16 bit to
// travel (runtime/bf16_optimizer.py). For fp16 it then copies those that the rank steps into one
// tensor and casts that (runtime/zero/stage_1_and_2.py), without ZeRO casts each and then makes one
// tensor (runtime/fp16/fused_optimizer.py).
std::vector<std::vector<int64_t>> StepOfStage(const graph::JobSpec& job,
                                              const graph::TrainingStyle& style,
                                              int32_t stage);

// Whole gradients in a backward pass where a rank keeps shards of them (ZeRO 2 of the built-in
// workload): of the bucket that fills and of the one that is on its way
// (launch/workload/grad_scatter.h), bytes each. Nothing elsewhere.
std::vector<int64_t> WholeGradientsOfStage(const graph::JobSpec& job,
                                           const graph::TrainingStyle& style,
                                           int32_t stage);

// Fails for experts and latent attention under nanotron, which has neither.
Result<std::vector<StateTensor>> StatesOfStage(const graph::JobSpec& job,
                                               const graph::TrainingStyle& style,
                                               int32_t stage);

}  // namespace prism::replayer
