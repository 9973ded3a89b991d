// Products whose shape no library call reveals: torch's grouped ones, for each group of rows or
// columns, as experts have them, those of 8 bits with a scale per row, and Inductor's templates.
#pragma once

#include <optional>

#include "graph/program/signature.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

// For aten::_grouped_mm and aten::_scaled_grouped_mm, `batch` times, once per group, for
// CUTLASS's kernel of aten::_scaled_mm, and for triton_tem_fused_mm and its like. Groups are
// assumed to be equally large, because the values in the list of their ends are not known. Null for
// other ops and for the small kernel that prepares one.
std::optional<graph::MatmulShape> FindGroupedProduct(const KernelView& view);

}  // namespace prism::replayer
