// A search repeated over values of one number of its cluster: hypothetical hardware and prices.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/search/search.h"

namespace prism::launch {

// "KEY:FROM:TO:STEPS": STEPS values from FROM to TO, evenly spaced, all above 0. KEY: a parameter
// of the cluster ("net.nic_bytes_per_s"), "gpu.memory_bytes", or "costs." and a key of its costs.
struct Variation {
  std::string key;
  double from = 0;
  double to = 0;
  int steps = 2;

  [[nodiscard]] double ValueAt(int step) const;
};

Result<Variation> ParseVariation(const std::string& text);

struct SweepPoint {
  double value = 0;
  SearchResult result;
};

// Fails on a key that the cluster does not have.
Result<std::vector<SweepPoint>> Sweep(const PlanEvaluator& evaluator,
                                      const SearchOptions& options,
                                      const Variation& variation,
                                      MpiSession& session);

// The best plan and the given ones at each value: a table, an array of searches, a plot of what the
// objective makes small.
std::string SweepText(const Variation& variation,
                      const SearchOptions& options,
                      const std::vector<SweepPoint>& points);
std::string SweepJson(const PlanEvaluator& evaluator,
                      const SearchOptions& options,
                      const Variation& variation,
                      const std::vector<SweepPoint>& points);
std::string SweepSvg(const Variation& variation,
                     const SearchOptions& options,
                     const std::vector<SweepPoint>& points);

}  // namespace prism::launch
