// Ranks that contradict each other before the program is steady, where no graph shows it: one calls
// a collective that others of its group do not, or receives what is not sent.
#pragma once

#include <map>
#include <optional>

#include "graph/fragment.h"
#include "graph/graph.h"

namespace prism::slicer {

// "early_mismatch" over all calls that recorded ranks of a group made in different numbers, with
// the first of them; none where they agree. Compared are iterations that all of them were recorded
// in. Sizes are not: what a rank gathers may be as long as what it has to say. `fragments`: by
// rank.
std::optional<graph::Warning> FindEarlyMismatch(
    const std::map<Rank, const graph::Fragment*>& fragments);

}  // namespace prism::slicer
