// Finds ranks that contradict each other before the program is steady, which no graph shows: one
// calls a collective that others of its group do not, or receives what is not sent.
#pragma once

#include <map>
#include <optional>

#include "graph/fragment.h"
#include "graph/graph.h"

namespace prism::slicer {

// One "early_mismatch" for all calls that recorded ranks of a group made in different numbers, with
// the first of them as example; null if they agree. Only iterations in which all of them were
// recorded are compared. Sizes are not compared, since ranks may contribute different amounts.
// `fragments`: by rank.
std::optional<graph::Warning> FindEarlyMismatch(
    const std::map<Rank, const graph::Fragment*>& fragments);

}  // namespace prism::slicer
