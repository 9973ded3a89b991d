// A search small enough for an exhaustive one, and plans of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/rng.h"
#include "launch/inputs/presets.h"
#include "launch/plan/search.h"

namespace prism::launch {

inline SearchProblem SmallProblem(const std::string& framework) {
  SearchProblem problem;
  problem.model = LoadModel("gpt3-1.3b")->model;
  problem.cluster = *LoadCluster("a100-40-8x");
  problem.costs = *LoadStated("a100-40-8x", StatedTable::kCosts);
  problem.host = *LoadStated("a100-40-8x", StatedTable::kHostMemory);
  problem.framework = framework;
  problem.global_batch_size = 32;
  problem.seq_len = 2048;
  problem.tokens = 26e9;
  return problem;
}

// Draws from the whole space; a plan may come twice.
inline std::vector<Plan> DrawPlans(const PlanEvaluator& evaluator,
                                   const PlanChoices& choices,
                                   size_t count,
                                   Rng rng) {
  const PlanSpace space = EnumeratePlans(evaluator.problem(), choices);
  std::vector<Plan> plans;
  for (size_t i = 0; i < count; ++i) {
    const int64_t drawn = rng.UniformInt(0, static_cast<int64_t>(space.plans.size()) - 1);
    plans.push_back(space.plans[static_cast<size_t>(drawn)]);
  }
  return plans;
}

}  // namespace prism::launch
