// Which of several models is the largest that a budget can train: each on as many tokens as its
// size calls for, with its best plan.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/plan/search.h"

namespace prism::launch {

struct SizedModel {
  size_t evaluator = 0;  // which one searched
  std::string name;
  int64_t parameters = 0;
  double tokens = 0;
  SearchResult result;

  [[nodiscard]] bool trains() const { return !result.best.empty(); }
};

// Tokens of a model: `tokens_per_parameter` (about 20 is compute-optimal: Hoffmann et al. 2022,
// arXiv 2203.15556) times its parameters.
double TokensOf(const graph::ModelSpec& model, double tokens_per_parameter);

// One search per model, in the order of their sizes. `evaluators`: one per problem.
Result<std::vector<SizedModel>> SearchSizes(const std::vector<PlanEvaluator>& evaluators,
                                            const SearchOptions& options,
                                            MpiSession& session);

std::string SizesText(const std::vector<SizedModel>& models, const SearchOptions& options);
std::string SizesJson(const std::vector<PlanEvaluator>& evaluators,
                      const std::vector<SizedModel>& models,
                      const SearchOptions& options);

}  // namespace prism::launch
