// What sets the training of two programs with one job apart, in words.
#pragma once

#include <string>
#include <vector>

#include "graph/job/training_style.h"

namespace prism::launch {

std::vector<std::string> StyleDifferences(const graph::TrainingStyle& a,
                                          const graph::TrainingStyle& b);

}  // namespace prism::launch
