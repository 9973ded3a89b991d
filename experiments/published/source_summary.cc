#include "experiments/published/source_summary.h"

#include <algorithm>
#include <utility>

#include "launch/inputs/presets.h"

#include "experiments/published/baseline.h"

namespace prism::launch {
namespace {

// Fitted parameters of the named profile and of those that it builds on.
Result<FittedCount> FittedParametersOf(const std::string& name) {
  Profile profile;
  PRISM_RETURN_IF_ERROR(AddProfile(name, {}, &profile));
  FittedCount count;
  for (const auto& [key, parameter] : profile.parameters) {
    if (parameter.mark == graph::Mark::kFitted) {
      ++(key.starts_with("memory.") ? count.memory : count.time);
    }
  }
  return count;
}

PredictedPoint PointOf(const RowOutcome& outcome) {
  const RowPrediction& prediction = outcome.prediction;
  return {prediction.seconds, prediction.low_s, prediction.high_s, *outcome.plan->measured_s,
          outcome.plan->group};
}

Status SummariseBaseline(const std::vector<const RowOutcome*>& compared, SourceSummary* summary) {
  std::vector<BaselinePoint> points;
  std::vector<PredictedPoint> predicted;
  std::map<std::vector<std::string>, graph::ClusterSpec> clusters;
  for (const RowOutcome* outcome : compared) {
    const RowPlan& plan = *outcome->plan;
    auto found = clusters.find(plan.cluster.profiles);
    if (found == clusters.end()) {
      PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, ComposeCluster(plan.cluster.profiles, {}));
      found = clusters.emplace(plan.cluster.profiles, std::move(cluster)).first;
    }
    points.push_back({IdealSeconds(plan.job, plan.style, found->second), *plan.measured_s});
  }
  summary->baseline_efficiency = FitEfficiency(points);
  for (size_t i = 0; i < points.size(); ++i) {
    const double seconds = points[i].ideal / summary->baseline_efficiency;
    predicted.push_back({seconds, seconds, seconds, points[i].measured, compared[i]->plan->group});
  }
  summary->baseline_errors = SummariseErrors(predicted);
  summary->baseline_ranking = SummariseRanking(predicted);
  return OkStatus();
}

Result<SourceSummary> SummariseOne(std::string source,
                                   const std::vector<const RowOutcome*>& outcomes) {
  SourceSummary summary;
  summary.source = std::move(source);
  std::vector<const RowOutcome*> compared;
  std::vector<PredictedPoint> points;
  for (const RowOutcome* outcome : outcomes) {
    ++summary.rows;
    for (const std::string& text : outcome->plan->assumptions) {
      ++summary.assumed[text];
    }
    if (outcome->prediction.uneven) {
      ++summary.assumed
            ["placement: ranks of a stage lie on nodes in different ways, the slowest "
             "stands for all"];
    }
    if (!outcome->plan->cannot_predict_bytes.empty()) {
      ++summary.memory_skipped[outcome->plan->cannot_predict_bytes];
    }
    for (const std::string& profile : outcome->plan->cluster.profiles) {
      if (!summary.fitted_parameters.contains(profile)) {
        PRISM_ASSIGN_OR_RETURN(summary.fitted_parameters[profile], FittedParametersOf(profile));
      }
    }
    if (!outcome->reason_skipped.empty()) {
      ++summary.skipped[outcome->reason_skipped];
      continue;
    }
    compared.push_back(outcome);
    points.push_back(PointOf(*outcome));
  }
  summary.compared = static_cast<int64_t>(compared.size());
  summary.errors = SummariseErrors(points);
  summary.intervals = SummariseIntervals(points);
  summary.ranking = SummariseRanking(points);
  PRISM_RETURN_IF_ERROR(SummariseBaseline(compared, &summary));
  return summary;
}

}  // namespace

FittedCount SourceSummary::FittedParameterCount() const {
  FittedCount count;
  for (const auto& [profile, fitted] : fitted_parameters) {
    count.time += fitted.time;
    count.memory += fitted.memory;
  }
  return count;
}

std::string ReasonSkipped(const RowPlan& plan, const RowPrediction& prediction) {
  if (!plan.cannot_predict.empty()) {
    return plan.cannot_predict;
  }
  if (!prediction.failure.empty()) {
    return prediction.failure;
  }
  return plan.measured_s.has_value() ? "" : "no measured iteration time";
}

Result<std::vector<SourceSummary>> Summarise(const std::vector<RowOutcome>& outcomes) {
  std::vector<std::string> sources;
  std::map<std::string, std::vector<const RowOutcome*>> by_source;
  std::vector<const RowOutcome*> all;
  for (const RowOutcome& outcome : outcomes) {
    std::vector<const RowOutcome*>& list = by_source[outcome.plan->source];
    if (list.empty()) {
      sources.push_back(outcome.plan->source);
    }
    list.push_back(&outcome);
    all.push_back(&outcome);
  }
  std::vector<SourceSummary> summaries;
  for (const std::string& source : sources) {
    PRISM_ASSIGN_OR_RETURN(SourceSummary summary, SummariseOne(source, by_source[source]));
    summaries.push_back(std::move(summary));
  }
  if (sources.size() > 1) {
    PRISM_ASSIGN_OR_RETURN(SourceSummary summary, SummariseOne("all", all));
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

}  // namespace prism::launch
