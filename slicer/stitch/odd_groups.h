// Finds a group that only some of the roles form: the same collectives, on different members than
// everywhere else. Such a job is consistent and runs, so validation does not refuse it, yet it is
// the usual sign of a wrong group (one stage's data-parallel group cut in two at a certain size).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "slicer/stitch/recorded_role.h"

namespace prism::slicer {

// One "odd_group" for each role and sequence of collectives for which the role uses a family of
// groups that no other role uses, and lacks the one that most ranks use. Both sides are named.
// `ranks_of_role`: how many ranks have each role. Sequences of at most 1 KiB in total coincide too
// easily by chance and are skipped.
std::vector<graph::Warning> FindOddGroups(const std::vector<RecordedRole>& roles,
                                          const std::vector<int64_t>& ranks_of_role);

}  // namespace prism::slicer
