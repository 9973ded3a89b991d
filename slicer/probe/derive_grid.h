// The grid that the ranks of a program form, from the groups that some of its ranks use.
//
// A group of n ranks with stride s says that the grid has borders at s and at s * n; nested ones
// say more. All borders together, in order, each a divisor of the next, are the axes. Groups that
// fit no grid of N ranks by themselves (first and last stage of a pipeline) are ignored here; they
// only have to be products of coordinates afterwards (graph/job/rank_grid.h).
#pragma once

#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/job/job.h"

namespace prism::slicer {

// `given`: degrees that the user named; the rest of `given` is 1 or follows. Axes are named as in
// axis_names.h. Fails, naming two groups, when one of the borders that the groups need does not
// divide the next.
Result<std::vector<graph::GridAxis>> DeriveGrid(const graph::ParallelSizes& given,
                                                const std::vector<const graph::Fragment*>& ranks);

// The degrees of parallelism of those axes: dp is the product of all axes that are not tp, cp or
// pp; ep is the part of it whose axis has that name.
graph::ParallelSizes SizesOf(const std::vector<graph::GridAxis>& axes);

}  // namespace prism::slicer
