// Which ranks to record besides those that were chosen by number: those that the program's source
// treats in a way of their own, and for each of their groups a member to compare them with.
#pragma once

#include <vector>

#include "graph/base/ids.h"
#include "slicer/check/calls.h"

namespace prism::slicer {

inline constexpr size_t kMostToldRanks = 48;  // with those that they are compared with

struct WantedRanks {
  std::vector<Rank> told = {};    // in the order in which they were found
  std::vector<Rank> others = {};  // that they are compared with
};

// `first`: the rank that told of them. `known`: ranks that are recorded anyway.
WantedRanks RanksToldBy(const RankCalls& first, const std::vector<Rank>& known);

}  // namespace prism::slicer
