// What sets the prediction of a published row apart from the answer of `prism search` to the same
// plan: where nothing does, both give one time (tests/experiments/published/one_answer_test.cc).
#pragma once

#include <string>
#include <vector>

#include "launch/plan/frameworks/framework.h"

#include "experiments/published/row_plan.h"

namespace prism::launch {

// Whether prism search plans for the framework at all, a network that no cluster preset has, and
// what the row's words or the year of its software change in the framework's defaults.
std::vector<std::string> DifferencesFromSearch(const Framework& framework, const RowPlan& plan);

}  // namespace prism::launch
