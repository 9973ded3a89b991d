// Numbers that say how far predictions are from measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace prism::launch {

// A prediction with its measurement, in seconds (or bytes: any one unit).
struct PredictedPoint {
  double predicted = 0;
  double low = 0;
  double high = 0;
  double measured = 0;
  std::string group;  // points of one group are plans of one model on the same GPUs

  // 100 (predicted / measured - 1).
  [[nodiscard]] double ErrorPct() const { return 100 * (predicted / measured - 1); }
};

struct ErrorStatistics {
  int64_t points = 0;
  double mape_pct = 0;    // mean of |error|
  double median_pct = 0;  // of |error|
  double p90_pct = 0;     // the same
  double worst_pct = 0;   // the same
  double bias_pct = 0;    // mean of the error with its sign
  // 1 - sum of squared errors / that of predicting the mean measurement; null if all measurements
  // are equal.
  std::optional<double> r2;
};

// All zero for no points.
ErrorStatistics SummariseErrors(const std::vector<PredictedPoint>& points);

struct IntervalStatistics {
  double inside_pct = 0;           // measured values between low and high
  double mean_half_width_pct = 0;  // of (high - low) / 2 / predicted
};

IntervalStatistics SummariseIntervals(const std::vector<PredictedPoint>& points);

// How well predictions order the plans of a group. Groups of fewer than three points are ignored.
struct RankingStatistics {
  int64_t groups = 0;
  // Spearman's, mean over groups weighted by their points, without groups in which all predictions
  // or all measurements are equal; null if none are left.
  std::optional<double> rank_correlation;
  double median_regret_pct = 0;  // of the plan predicted fastest: measured over the best, minus one
  double worst_regret_pct = 0;
};

RankingStatistics SummariseRanking(const std::vector<PredictedPoint>& points);

}  // namespace prism::launch
