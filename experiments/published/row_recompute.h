// What a published row says about recomputation in the backward pass.
#pragma once

#include <cstdint>

#include "graph/job/job.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

graph::Recompute RecomputeOfRow(const PublishedRow& row, const graph::ModelSpec& model);

// RecomputePart of a selective one: those that it names, the core of attention if it names none.
uint32_t RecomputePartsOfRow(const PublishedRow& row);

}  // namespace prism::launch
