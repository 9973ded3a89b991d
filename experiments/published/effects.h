// Effects of the model that can be removed, one at a time, to see by how much each reduces the
// error. Nothing is refitted without them, so a number says what the effect contributes in this
// model, not what another model would make of its absence.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/inputs/presets.h"

#include "experiments/published/row_plan.h"

namespace prism::launch {

// A line of effects.csv, which says what is predicted without it.
struct Effect {
  std::string name;                          // "wave-quantisation"
  std::map<std::string, double> parameters;  // of every cluster then
};

// In the order in which they are printed.
const std::vector<Effect>& Effects();

// Removes the effect from all plans: from what their jobs do, or from the parameters of their
// clusters, which are put into `overrides`. kInvalidArgument, with a similar name, for an unknown
// effect.
Status TakeAway(const std::string& effect,
                std::vector<RowPlan>* plans,
                ProfileOverrides* overrides);

}  // namespace prism::launch
