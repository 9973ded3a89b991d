#include "experiments/published/source_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "launch/inputs/csv_table.h"
#include "launch/inputs/presets.h"
#include "launch/plan/peak_flops.h"

#include "experiments/published/tables.h"

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

std::vector<PublishedError> PublishedErrorsOf(const std::string& source) {
  static const Result<CsvTable> csv = CsvTable::Parse(kErrorsCsv, "published_errors.csv");
  std::vector<PublishedError> errors;
  for (size_t row = 0; row < csv->row_count(); ++row) {
    if (csv->Field(row, "source") == source) {
      errors.push_back({csv->Field(row, "system"), csv->Field(row, "statistic"),
                        std::atof(csv->Field(row, "error_pct").c_str()), csv->Field(row, "scope")});
    }
  }
  return errors;
}

PredictedPoint PointOf(const RowOutcome& outcome) {
  const RowPrediction& prediction = outcome.prediction;
  return {prediction.seconds, prediction.low_s, prediction.high_s, *outcome.plan->measured_s,
          outcome.plan->group};
}

// What a prediction has to beat: model FLOPs over peak over one efficiency, times the pipeline
// bubble of the schedule in closed form. Here at an efficiency of one; recomputed FLOPs are
// counted, work on frozen weights is not.
double IdealSeconds(const RowPlan& plan, const graph::ClusterSpec& cluster) {
  constexpr double kFrozenShare = 2.0 / 3.0;  // no weight gradients
  const graph::JobSpec& job = plan.job;
  const double flops = graph::HardwareFlops(job) * (plan.style.frozen_weights ? kFrozenShare : 1.0);
  const double rate =
      static_cast<double>(job.parallel.world_size()) * PeakFlops(cluster, plan.style.precision);
  const auto slots = static_cast<double>(job.microbatches() * job.parallel.vpp);
  const double bubble = 1 + static_cast<double>(job.parallel.pp - 1) / slots;
  return flops / rate * bubble;
}

// The efficiency, the baseline's only parameter, makes the geometric mean of predicted over
// measured one on the rows that it is shown with.
Status SummariseBaseline(const std::vector<const RowOutcome*>& compared, SourceSummary* summary) {
  std::vector<double> ideal;
  double logs = 0;
  std::vector<PredictedPoint> predicted;
  std::map<std::vector<std::string>, graph::ClusterSpec> clusters;
  for (const RowOutcome* outcome : compared) {
    const RowPlan& plan = *outcome->plan;
    auto found = clusters.find(plan.cluster.profiles);
    if (found == clusters.end()) {
      PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, ComposeCluster(plan.cluster.profiles, {}));
      found = clusters.emplace(plan.cluster.profiles, std::move(cluster)).first;
    }
    ideal.push_back(IdealSeconds(plan, found->second));
    logs += std::log(ideal.back() / *plan.measured_s);
  }
  summary->baseline_efficiency =
      ideal.empty() ? 0 : std::exp(logs / static_cast<double>(ideal.size()));
  for (size_t i = 0; i < ideal.size(); ++i) {
    const double seconds = ideal[i] / summary->baseline_efficiency;
    const RowPlan& plan = *compared[i]->plan;
    predicted.push_back({seconds, seconds, seconds, *plan.measured_s, plan.group});
  }
  summary->baseline_errors = SummariseErrors(predicted);
  summary->baseline_ranking = SummariseRanking(predicted);
  return OkStatus();
}

Result<SourceSummary> SummariseOne(std::string source,
                                   const std::vector<const RowOutcome*>& outcomes) {
  SourceSummary summary;
  summary.source = std::move(source);
  summary.published = PublishedErrorsOf(summary.source);
  std::vector<const RowOutcome*> compared;
  std::vector<PredictedPoint> points;
  for (const RowOutcome* outcome : outcomes) {
    ++summary.rows;
    for (const std::string& text : outcome->plan->assumptions) {
      ++summary.assumed[text];
    }
    for (const std::string& text : outcome->plan->differs_from_search) {
      ++summary.differs["from prism search: " + text];
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
