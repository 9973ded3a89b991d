// BenchAblation (experiments/published/benches.h): published rows are predicted as they are
// and once more per effect without it; the change of the error is what the effect explains. Graphs
// are built once if an effect only concerns parameters, and again if it changes the program. A row
// that cannot be predicted without an effect is left out of that effect's errors.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "experiments/published/benches.h"
#include "experiments/published/effects.h"
#include "experiments/published/error_statistics.h"
#include "experiments/published/predictor.h"
#include "experiments/published/source_summary.h"

namespace prism::launch {
namespace {

// Errors by source, "all" last, in the order of the rows.
using SourceErrors = std::vector<std::pair<std::string, ErrorStatistics>>;

struct Prediction {
  std::vector<double> seconds;  // by row; 0 for rows that are not compared
  SourceErrors errors;
};

void AddPoint(const std::string& source,
              const PredictedPoint& point,
              std::vector<std::pair<std::string, std::vector<PredictedPoint>>>* points) {
  const auto found =
      std::ranges::find_if(*points, [&](const auto& known) { return known.first == source; });
  if (found == points->end()) {
    points->emplace_back(source, std::vector<PredictedPoint>{point});
  } else {
    found->second.push_back(point);
  }
}

Result<Prediction> Compare(const std::vector<RowPlan>& plans,
                           const ProfileOverrides& overrides,
                           Predictor* predictor) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<RowPrediction> predictions,
                         predictor->Predict(overrides, /*with_intervals=*/false));
  Prediction result;
  std::vector<std::pair<std::string, std::vector<PredictedPoint>>> points;
  std::vector<PredictedPoint> all;
  for (size_t i = 0; i < plans.size(); ++i) {
    const double seconds = predictions[i].seconds;
    const bool compared = ReasonSkipped(plans[i], predictions[i]).empty();
    result.seconds.push_back(compared ? seconds : 0);
    if (compared) {
      const PredictedPoint point = {seconds, seconds, seconds, *plans[i].measured_s, ""};
      AddPoint(plans[i].source, point, &points);
      all.push_back(point);
    }
  }
  for (const auto& [source, of_source] : points) {
    result.errors.emplace_back(source, SummariseErrors(of_source));
  }
  result.errors.emplace_back("all", SummariseErrors(all));
  return result;
}

// `predictor` has the graphs of `plans`; an effect that only concerns parameters needs no others.
Result<Prediction> CompareWithout(const std::string& effect,
                                  std::vector<RowPlan> plans,
                                  Predictor* predictor) {
  ProfileOverrides overrides;
  PRISM_RETURN_IF_ERROR(TakeAway(effect, &plans, &overrides));
  if (!overrides.empty()) {
    return Compare(plans, overrides, predictor);
  }
  Predictor other(plans);
  return Compare(plans, overrides, &other);
}

// Number of rows that the effect changes by more than a thousandth.
int64_t Moved(const Prediction& whole, const Prediction& without) {
  constexpr double kMoved = 1e-3;
  int64_t moved = 0;
  for (size_t i = 0; i < whole.seconds.size(); ++i) {
    moved += std::abs(without.seconds[i] - whole.seconds[i]) > kMoved * whole.seconds[i] ? 1 : 0;
  }
  return moved;
}

// A line a source.
std::string RowsOf(std::string_view effect, const Prediction& without, const Prediction& whole) {
  std::string text;
  for (const auto& [source, errors] : without.errors) {
    const auto before = std::ranges::find_if(
        whole.errors, [&name = source](const auto& known) { return known.first == name; });
    text += fmt::format("{},{},{},{:.3f},{:.3f},{:.3f},{:.3f}\n", effect, source, errors.points,
                        errors.mape_pct, errors.median_pct, errors.bias_pct,
                        errors.mape_pct - before->second.mape_pct);
  }
  return text;
}

std::vector<std::string> NamesOf(const BenchAccuracyOptions& options) {
  std::vector<std::string> names = options.without;
  for (const Effect& effect : Effects()) {
    if (options.without.empty()) {
      names.emplace_back(effect.name);
    }
  }
  return names;
}

BenchCase CaseOf(std::string_view name, const Prediction& prediction, int64_t moved) {
  BenchCase line = {"ablation", std::string(name), {}};
  line.metrics.push_back({"rows_moved", static_cast<double>(moved), "rows"});
  for (const auto& [source, errors] : prediction.errors) {
    line.metrics.push_back({source + " mape_pct", errors.mape_pct, "%"});
    line.metrics.push_back({source + " median_pct", errors.median_pct, "%"});
  }
  return line;
}

}  // namespace

Result<PublishedOutput> BenchAblation(const BenchAccuracyOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<RowPlan> plans, PlanTables(options.tables));
  Predictor predictor(plans);
  PRISM_ASSIGN_OR_RETURN(const Prediction whole, Compare(plans, {}, &predictor));
  const ErrorStatistics& reference = whole.errors.back().second;
  PublishedOutput output;
  output.rows = "without,source,rows,mape_pct,median_pct,bias_pct,mape_change_pct\n";
  output.text = fmt::format("{:<26}{:>9}{:>8}{:>8}{:>9}{:>8}\n", "without", "moved", "MAPE",
                            "median", "change", "bias");
  output.text += fmt::format("{:<26}{:>9}{:>8.2f}{:>8.2f}{:>9}{:>8.1f}\n", "nothing",
                             fmt::format("of {}", reference.points), reference.mape_pct,
                             reference.median_pct, "", reference.bias_pct);
  for (const std::string& effect : NamesOf(options)) {
    PRISM_ASSIGN_OR_RETURN(const Prediction without, CompareWithout(effect, plans, &predictor));
    const int64_t moved = Moved(whole, without);
    const ErrorStatistics& pooled = without.errors.back().second;
    output.text += fmt::format("{:<26}{:>9}{:>8.2f}{:>8.2f}{:>+9.2f}{:>8.1f}\n", effect, moved,
                               pooled.mape_pct, pooled.median_pct,
                               pooled.mape_pct - reference.mape_pct, pooled.bias_pct);
    output.rows += RowsOf(effect, without, whole);
    output.cases.push_back(CaseOf(effect, without, moved));
  }
  return output;
}

}  // namespace prism::launch
