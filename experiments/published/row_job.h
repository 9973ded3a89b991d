// From a published row to the job it describes: shape of the model, layout and batch. What the row
// leaves open is assumed as was usual for the frameworks of the time, and noted.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/base/status.h"
#include "graph/job/job.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

// The shape of the row's model. Fails, with the reason to skip the row, if layers or hidden size
// are neither stated nor follow from the number of parameters.
Result<graph::ModelSpec> ModelOfRow(const PublishedRow& row);

// How the run divides its GPUs. kRunFailed if their number is missing or the degrees do not fit it.
Result<graph::ParallelSizes> SizesOfRow(const PublishedRow& row);

// The run of the table that prints this degree of its plan and is nearest to this one: same model,
// GPU and framework, the number of GPUs as near as possible; null if there is none.
std::optional<PublishedRow> NearestPlan(const PublishedRow& row,
                                        int64_t gpus,
                                        std::string_view degree);

// The row's job. Fails with the reason to skip it: no shape, no number of GPUs, no batch, a layout
// that needs more GPUs than there are.
Result<graph::JobSpec> JobOfRow(const PublishedRow& row);

// Stage of ZeRO that the column says; null if it says none that is known.
std::optional<int32_t> StatedZeroStage(const PublishedRow& row);

}  // namespace prism::launch
