// Calls that meet and do not go together, as a fault.
#pragma once

#include "slicer/check/check.h"
#include "slicer/check/execution.h"

namespace prism::slicer {

CheckFault ContradictionOf(const Execution& execution, const Meeting& meeting);

}  // namespace prism::slicer
