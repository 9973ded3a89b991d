// Ranks along an axis that recorded ones exchange as much with: in an all-to-all of unequal parts,
// as of embedding tables that are dealt out by the table, a few ranks show what all of them send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/fragment.h"
#include "graph/rank_grid.h"

namespace prism::slicer {

// By coordinate of the axis: the first one that every one of `recorded`, ranks that differ along
// the axis alone, sends as much to and gets as much from, call by call. Empty where one of them
// exchanges nothing with another coordinate, so that nothing is known of that one.
std::vector<int32_t> ExchangeClasses(const graph::RankGrid& grid,
                                     size_t axis,
                                     const std::vector<const graph::Fragment*>& recorded);

}  // namespace prism::slicer
