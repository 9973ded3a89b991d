// Classes of ranks along an axis with which recorded ranks exchange equal amounts: in an all-to-all
// of unequal parts (embedding tables distributed table by table) a few ranks show what all of them
// send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/fragment.h"
#include "graph/job/rank_grid.h"

namespace prism::slicer {

// By coordinate of the axis: the first coordinate with which each of `recorded` (ranks that differ
// only along the axis) exchanges the same amounts in both directions, call by call. Empty if one of
// them exchanges nothing with some coordinate, about which nothing is known then.
std::vector<int32_t> ExchangeClasses(const graph::RankGrid& grid,
                                     size_t axis,
                                     const std::vector<const graph::Fragment*>& recorded);

}  // namespace prism::slicer
