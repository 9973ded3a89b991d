// How the framework of a published row ran its job: defaults of that framework and time, except
// where the row says otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "launch/plan/frameworks/framework.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

// By the words with which the row names its framework; null if none is known.
const Framework* KnownFramework(const PublishedRow& row);

// Megatron-Core if none is known.
const Framework& FrameworkOfRow(const PublishedRow& row);

// Whether the release has no fused attention for the model's heads: cuDNN supports training with
// those of 192 and 128 elements (latent attention) on Blackwell from 9.11 (mid 2025) on.
bool LacksFusedAttention(const PublishedRow& row, const graph::ModelSpec& model);

// Format of matrix products; if the row does not say, that of framework and GPU.
graph::Precision PrecisionOfRow(const PublishedRow& row);

// The performance recipe that a row of Megatron-Bridge's tables ran, as quoted in the column note:
// what it enables beyond the columns (CUDA graphs, dispatcher of experts, overlap). The row's own;
// otherwise, noted as assumed, that of the release of the same model on the same GPU which is
// nearest in precision, plan and date; otherwise what recipes of its date have in common. In lower
// case; "" if nothing is known.
std::string RecipeOfRow(const PublishedRow& row);

// Whether the row names a release by year (of the century) and month, or one of Megatron-Core by
// number, that is before `year` and `month`: "NeMo 24.03.01" and "0.8.0" are before 24, 9.
bool OfReleaseBefore(const PublishedRow& row, int year, int month);

// The same for the underlying software, which a submission to a benchmark may name in addition to
// its framework; otherwise by the benchmark's round.
bool BuiltBefore(const PublishedRow& row, int year, int month);

graph::Recompute RecomputeOfRow(const PublishedRow& row, const graph::ModelSpec& model);

// RecomputePart of a selective one: those that it names, the core of attention if it names none.
uint32_t RecomputePartsOfRow(const PublishedRow& row);

// `job` is that of the row.
graph::TrainingStyle StyleOfRow(const PublishedRow& row, const graph::JobSpec& job);

}  // namespace prism::launch
