// Everything reported about the predictions of one source: errors of Prism and of the baseline,
// what was skipped and what was assumed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"

#include "experiments/published/error_statistics.h"
#include "experiments/published/predictor.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {

// A row with what was predicted for it.
struct RowOutcome {
  const RowPlan* plan = nullptr;
  RowPrediction prediction;
  std::string reason_skipped;  // empty: the row counts in the statistics
};

struct FittedCount {
  int64_t time = 0;
  int64_t memory = 0;  // memory.*: they affect only peaks
};

// A line of published_errors.csv: what another tool has published about runs of the source.
struct PublishedError {
  std::string system;
  std::string statistic;  // "MAPE", "average" or "max"
  double error_pct = 0;
  std::string scope;
};

struct SourceSummary {
  std::string source;
  int64_t rows = 0;
  int64_t compared = 0;
  std::map<std::string, int64_t> skipped;         // rows by reason
  std::map<std::string, int64_t> memory_skipped;  // the same for rows with a measured peak memory
  std::map<std::string, int64_t> assumed;         // rows by what was assumed
  std::map<std::string, int64_t> differs;         // rows by what prism search would not do
  ErrorStatistics errors;
  IntervalStatistics intervals;
  RankingStatistics ranking;
  double baseline_efficiency = 0;
  ErrorStatistics baseline_errors;
  RankingStatistics baseline_ranking;
  std::vector<PublishedError> published;
  // Fitted parameters that these predictions depend on, by profile.
  std::map<std::string, FittedCount> fitted_parameters;

  [[nodiscard]] FittedCount FittedParameterCount() const;
};

// Sources in the order of their first rows, followed by "all" if there are several.
Result<std::vector<SourceSummary>> Summarise(const std::vector<RowOutcome>& outcomes);

// Why a row is not counted: it describes no job, has no prediction, or was not measured.
std::string ReasonSkipped(const RowPlan& plan, const RowPrediction& prediction);

}  // namespace prism::launch
