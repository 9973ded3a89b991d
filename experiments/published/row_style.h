// How the framework of a published row ran its job: defaults of that framework and time, except
// where the row says otherwise.
#pragma once

#include <optional>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "launch/plan/frameworks/framework.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

// By the words with which the row names its framework; null if none is known.
std::optional<FrameworkFamily> KnownFamily(const PublishedRow& row);

// Megatron-Core if none is known.
FrameworkFamily FamilyOfRow(const PublishedRow& row);

// Whether the release has no fused attention for the model's heads: cuDNN supports training with
// those of 192 and 128 elements (latent attention) on Blackwell from 9.11 (mid 2025) on.
bool LacksFusedAttention(const PublishedRow& row, const graph::ModelSpec& model);

// Format of matrix products; if the row does not say, that of framework and GPU.
graph::Precision PrecisionOfRow(const PublishedRow& row);

// `job` is that of the row.
graph::TrainingStyle StyleOfRow(const PublishedRow& row, const graph::JobSpec& job);

}  // namespace prism::launch
