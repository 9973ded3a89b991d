// ZeRO 3 of the built-in workload (launch/trainer/sharded_parameters.h): what a rank keeps of a
// stage's parameters, gradients and optimizer states, and what it gathers.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "replayer/memory/model_states.h"
#include "replayer/memory/sharded_parameters.h"

namespace prism::replayer {

// Whether this is such a job, with replicas to distribute parameters over.
bool ShardsByUnit(const graph::JobSpec& job, const graph::TrainingStyle& style);

// In order: a shard of the values per unit, each made while the whole unit is present; gradients,
// one tensor per kind over all units; the step count; for every piece of a shard a master copy and
// two moments, those with weight decay first; each piece's weight in the gradient norm.
std::vector<StateTensor> WorkloadShardStates(const graph::JobSpec& job,
                                             const graph::TrainingStyle& style,
                                             int32_t stage);

// The units of a model chunk as StageUnits counts them, padding included. Embedding and head that
// share a tied weight are the root; the boundary that ends a chunk before the last one is empty.
ShardedChunk WorkloadShardedChunk(const graph::JobSpec& job,
                                  graph::LayerRange layers,
                                  int64_t chunk);

}  // namespace prism::replayer
