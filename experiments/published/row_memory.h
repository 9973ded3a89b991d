// Peak memory of a published row's job, by the counter and on the rank that the row names.
#pragma once

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

// Bytes that replayer/memory/stage_memory.h accounts for: allocated or reserved as the column
// mem_kind says (nvidia-smi: reserved and the context), on the rank of mem_rank, else on the worst.
// Fails if the job's states are not modelled (mixtures of experts).
Result<double> PredictedBytes(const PublishedRow& row,
                              const graph::JobSpec& job,
                              const graph::TrainingStyle& style,
                              const graph::ClusterSpec& cluster);

}  // namespace prism::launch
