// `prism bench accuracy --calibrated N`: what calibration (calibration.h) is worth. Of every table
// and machine N rows are given to it, and the others are predicted with and without it.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "experiments/published/benches.h"
#include "experiments/published/calibration.h"
#include "experiments/published/error_statistics.h"
#include "experiments/published/predictor.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

struct CalibratedGroup {
  std::string name;
  std::vector<RowPlan> given;
  std::vector<RowPlan> others;
};

// Rows of one table on one machine with one framework: those that have been predicted once and
// measured. Given are rows at equal distances, from the first on.
std::vector<CalibratedGroup> GroupRows(const std::vector<RowPlan>& plans,
                                       const std::vector<RowPrediction>& predictions,
                                       size_t given) {
  std::map<std::tuple<std::string, std::string, std::vector<std::string>>,
           std::vector<const RowPlan*>>
      rows;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (predictions[i].failure.empty() && plans[i].measured_s.has_value()) {
      rows[{plans[i].source, plans[i].job.model.name, plans[i].cluster.profiles}].push_back(
          &plans[i]);
    }
  }
  std::vector<CalibratedGroup> groups;
  for (const auto& [key, members] : rows) {
    if (members.size() <= given) {
      continue;
    }
    const RowPlan& first = *members.front();
    CalibratedGroup group = {
        fmt::format("{}, {}, {}", first.source, first.cluster.gpu, first.job.model.name), {}, {}};
    for (size_t i = 0; i < members.size(); ++i) {
      const bool is_given =
          group.given.size() < given && i == group.given.size() * members.size() / given;
      (is_given ? group.given : group.others).push_back(*members[i]);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

Result<std::vector<PredictedPoint>> PointsAt(const Site& site, const std::vector<RowPlan>& plans) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<double> seconds, SecondsAt(site, plans));
  std::vector<PredictedPoint> points;
  for (size_t i = 0; i < plans.size(); ++i) {
    points.push_back({seconds[i], 0, 0, *plans[i].measured_s, ""});
  }
  return points;
}

std::string ErrorsText(const ErrorStatistics& errors) {
  return fmt::format("{:>8.2f}{:>8.2f}{:>8.1f}", errors.mape_pct, errors.median_pct,
                     errors.worst_pct);
}

void AddMetrics(const std::string& prefix, const ErrorStatistics& errors, BenchCase* line) {
  line->metrics.push_back({prefix + "mape_pct", errors.mape_pct, "%"});
  line->metrics.push_back({prefix + "median_pct", errors.median_pct, "%"});
  line->metrics.push_back({prefix + "worst_pct", errors.worst_pct, "%"});
}

void Report(const std::string& name,
            const std::vector<PredictedPoint>& before,
            const std::vector<PredictedPoint>& after,
            const std::string& factors,
            PublishedOutput* output) {
  const ErrorStatistics errors_before = SummariseErrors(before);
  const ErrorStatistics errors_after = SummariseErrors(after);
  output->text += fmt::format("{:<64}{:>6}{}{}{}\n", name, before.size(), ErrorsText(errors_before),
                              ErrorsText(errors_after), factors);
  BenchCase line = {"accuracy", name, {{"rows", static_cast<double>(before.size()), "rows"}}};
  AddMetrics("before_", errors_before, &line);
  AddMetrics("after_", errors_after, &line);
  output->cases.push_back(std::move(line));
}

}  // namespace

Result<PublishedOutput> BenchCalibrated(const BenchAccuracyOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<RowPlan> plans, PlanTables(options.tables));
  PRISM_ASSIGN_OR_RETURN(const std::vector<RowPrediction> predictions,
                         Predictor(plans).Predict({}, /*with_intervals=*/false));
  PublishedOutput output;
  output.text = fmt::format("{:<64}{:>6}{:>24}{:>24}   factors: compute, NICs, host\n", "error, %",
                            "rows", "MAPE before  med   worst", "MAPE after  med   worst");
  std::vector<PredictedPoint> all_before;
  std::vector<PredictedPoint> all_after;
  for (const CalibratedGroup& group :
       GroupRows(plans, predictions, static_cast<size_t>(options.calibrated))) {
    std::vector<double> measured;
    for (const RowPlan& plan : group.given) {
      measured.push_back(*plan.measured_s);
    }
    PRISM_ASSIGN_OR_RETURN(
        const Calibration calibration,
        Calibrate(measured, [&](const Site& site) { return SecondsAt(site, group.given); }));
    PRISM_ASSIGN_OR_RETURN(const std::vector<PredictedPoint> before, PointsAt({}, group.others));
    PRISM_ASSIGN_OR_RETURN(const std::vector<PredictedPoint> after,
                           PointsAt(calibration.site, group.others));
    const Site& site = calibration.site;
    Report(group.name, before, after,
           fmt::format("   {:.3f} {:.3f} {:.3f}", site.compute, site.network, site.host), &output);
    all_before.insert(all_before.end(), before.begin(), before.end());
    all_after.insert(all_after.end(), after.begin(), after.end());
  }
  Report("all", all_before, all_after, "", &output);
  return output;
}

}  // namespace prism::launch
