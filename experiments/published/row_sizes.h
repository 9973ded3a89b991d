// How a published run divides its GPUs, with the degrees that its row omits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/base/status.h"
#include "graph/job/job.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

// kRunFailed if the number of GPUs is missing or the degrees do not fit it.
Result<graph::ParallelSizes> SizesOfRow(const PublishedRow& row);

// The run of the table that prints this degree of its plan and is nearest to this one: same model,
// GPU and framework, the number of GPUs as near as possible; null if there is none.
std::optional<PublishedRow> NearestPlan(const PublishedRow& row,
                                        int64_t gpus,
                                        std::string_view degree);

}  // namespace prism::launch
