// A product of matrices for each group of rows or columns, as experts have them: torch's grouped
// products, which no library call tells the shape of.
#pragma once

#include <optional>

#include "graph/signature.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

// Of aten::_grouped_mm and aten::_scaled_grouped_mm, `batch` times, once a group. Groups count as
// equally large, because the list of their ends has no known values. Nothing for other ops and for
// the small kernel that prepares one.
std::optional<graph::MatmulShape> FindGroupedProduct(const KernelView& view);

}  // namespace prism::replayer
