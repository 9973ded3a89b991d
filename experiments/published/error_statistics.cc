#include "experiments/published/error_statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace prism::launch {
namespace {

double Mean(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

// Rank of each value, from 0; equal values share the mean of their ranks.
std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

// Null if one of the two does not vary.
std::optional<double> Correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = Mean(a);
  const double mean_b = Mean(b);
  double both = 0;
  double square_a = 0;
  double square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return square_a > 0 && square_b > 0 ? std::optional(both / std::sqrt(square_a * square_b))
                                      : std::nullopt;
}

// How much slower the plan predicted fastest is than the fastest one measured.
double RegretPct(const std::vector<double>& predicted, const std::vector<double>& measured) {
  const auto chosen = std::ranges::min_element(predicted) - predicted.begin();
  const double best = *std::ranges::min_element(measured);
  return 100 * (measured[static_cast<size_t>(chosen)] / best - 1);
}

// The `share` quantile (0 to 1) by linear interpolation; 0 for no values.
double Quantile(std::vector<double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace

ErrorStatistics SummariseErrors(const std::vector<PredictedPoint>& points) {
  ErrorStatistics result;
  std::vector<double> errors;
  std::vector<double> sizes;
  std::vector<double> measured;
  double squares = 0;
  for (const PredictedPoint& point : points) {
    errors.push_back(point.ErrorPct());
    sizes.push_back(std::abs(point.ErrorPct()));
    measured.push_back(point.measured);
    squares += (point.predicted - point.measured) * (point.predicted - point.measured);
  }
  const double mean = Mean(measured);
  double variation = 0;
  for (const double value : measured) {
    variation += (value - mean) * (value - mean);
  }
  result.points = static_cast<int64_t>(points.size());
  result.mape_pct = Mean(sizes);
  result.median_pct = Quantile(sizes, 0.5);
  result.p90_pct = Quantile(sizes, 0.9);
  result.worst_pct = Quantile(sizes, 1);
  result.bias_pct = Mean(errors);
  if (variation > 0) {
    result.r2 = 1 - squares / variation;
  }
  return result;
}

IntervalStatistics SummariseIntervals(const std::vector<PredictedPoint>& points) {
  std::vector<double> inside;
  std::vector<double> widths;
  for (const PredictedPoint& point : points) {
    const bool within = point.low <= point.measured && point.measured <= point.high;
    inside.push_back(within ? 100 : 0);
    widths.push_back(100 * (point.high - point.low) / 2 / point.predicted);
  }
  return {Mean(inside), Mean(widths)};
}

RankingStatistics SummariseRanking(const std::vector<PredictedPoint>& points) {
  struct Group {
    std::vector<double> predicted;
    std::vector<double> measured;
  };

  std::map<std::string, Group> groups;
  for (const PredictedPoint& point : points) {
    groups[point.group].predicted.push_back(point.predicted);
    groups[point.group].measured.push_back(point.measured);
  }
  RankingStatistics result;
  std::vector<double> regrets;
  double weight = 0;
  double weighted = 0;
  constexpr size_t kFewest = 3;
  for (const auto& [name, group] : groups) {
    if (group.predicted.size() < kFewest) {
      continue;
    }
    ++result.groups;
    regrets.push_back(RegretPct(group.predicted, group.measured));
    const auto count = static_cast<double>(group.predicted.size());
    const auto correlation = Correlation(Ranks(group.predicted), Ranks(group.measured));
    weighted += count * correlation.value_or(0);
    weight += correlation.has_value() ? count : 0;
  }
  if (weight > 0) {
    result.rank_correlation = weighted / weight;
  }
  result.median_regret_pct = Quantile(regrets, 0.5);
  result.worst_regret_pct = Quantile(regrets, 1);
  return result;
}

}  // namespace prism::launch
