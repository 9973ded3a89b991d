// Why an execution has stopped before its ranks' ends, if it has: a rank that others wait for has
// ended its program, or ranks wait for each other in a circle. A wait for a rank that was not
// followed to its end is no fault.
#pragma once

#include <optional>
#include <vector>

#include "slicer/check/check.h"
#include "slicer/check/execution.h"

namespace prism::slicer {

// Ranks that wait in a call that has begun, ascending.
std::vector<Rank> WaitingRanks(const Execution& execution);

// The first such fault; none if there is no other than waits for ranks that were cut.
std::optional<CheckFault> FindDeadlock(const Execution& execution);

}  // namespace prism::slicer
