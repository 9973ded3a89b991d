// Effects of the model that can be taken away, one at a time, to see how much error each removes.
// Nothing is fitted again without them, so that a number says what the effect does in this model,
// not what another model would make of its absence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "launch/accuracy/row_plan.h"
#include "launch/options/presets.h"

namespace prism::launch {

struct Effect {
  std::string_view name;     // "wave-quantisation"
  std::string_view without;  // what is predicted then
};

// In the order in which they are printed.
std::span<const Effect> Effects();

// Takes the effect from all plans: from what their jobs do, or from the parameters of their
// clusters, which `overrides` gets. kInvalidArgument with a near name for an effect unknown.
Status TakeAway(const std::string& effect,
                std::vector<RowPlan>* plans,
                ProfileOverrides* overrides);

}  // namespace prism::launch
