// A search repeated over values of one number of its cluster: hypothetical hardware and prices.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/inputs/variation.h"
#include "launch/plan/search.h"

namespace prism::launch {

struct SweepPoint {
  double value = 0;
  SearchResult result;
};

// Fails on a key that the cluster does not have, and on a value that no cluster can have.
Result<std::vector<SweepPoint>> Sweep(const PlanEvaluator& evaluator,
                                      const SearchOptions& options,
                                      const Variation& variation,
                                      MpiSession& session);

// The best plan and the given ones at each value: a table, an array of searches, a plot of what the
// objective minimises.
std::string SweepText(const PlanEvaluator& evaluator,
                      const SearchOptions& options,
                      const Variation& variation,
                      const std::vector<SweepPoint>& points);
std::string SweepJson(const PlanEvaluator& evaluator,
                      const SearchOptions& options,
                      const Variation& variation,
                      const std::vector<SweepPoint>& points);
// As SearchCsv, with the value as first column.
std::string SweepCsv(const PlanEvaluator& evaluator,
                     const Variation& variation,
                     const std::vector<SweepPoint>& points);
std::string SweepSvg(const Variation& variation,
                     const SearchOptions& options,
                     const std::vector<SweepPoint>& points);

}  // namespace prism::launch
