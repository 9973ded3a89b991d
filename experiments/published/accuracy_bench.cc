// `prism bench accuracy`: published runs are planned (row_plan.h), predicted, and compared with
// what was measured, source by source.
#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/csv_field.h"
#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "graph/base/units.h"
#include "launch/inputs/csv_table.h"
#include "launch/process/distribute.h"
#include "launch/process/mpi_session.h"
#include "launch/process/stop_watch.h"
#include "launch/process/wire.h"

#include "experiments/published/benches.h"
#include "experiments/published/effects.h"
#include "experiments/published/predictor.h"
#include "experiments/published/row_plan.h"
#include "experiments/published/source_summary.h"

namespace prism::launch {
namespace {

// Predicted and measured peak memory and the error; empty if the row has none.
std::string BytesColumns(const RowPlan& plan) {
  if (!plan.measured_bytes.has_value()) {
    return ",,,";
  }
  if (!plan.predicted_bytes.has_value()) {
    return fmt::format(",,{:.0f},", *plan.measured_bytes);
  }
  return fmt::format(",{:.0f},{:.0f},{:.3f}", *plan.predicted_bytes, *plan.measured_bytes,
                     100 * (*plan.predicted_bytes / *plan.measured_bytes - 1));
}

// Errors of peak memory by source; sources that measured none are absent.
std::map<std::string, ErrorStatistics> MemoryErrors(const std::vector<RowPlan>& plans) {
  std::map<std::string, std::vector<PredictedPoint>> points;
  for (const RowPlan& plan : plans) {
    if (plan.measured_bytes.has_value() && plan.predicted_bytes.has_value()) {
      const double predicted = *plan.predicted_bytes;
      points[plan.source].push_back(
          {predicted, predicted, predicted, *plan.measured_bytes, plan.group});
    }
  }
  std::map<std::string, ErrorStatistics> errors;
  for (const auto& [source, of_source] : points) {
    errors[source] = SummariseErrors(of_source);
  }
  return errors;
}

std::string RowsCsv(const std::vector<RowOutcome>& outcomes) {
  std::string text =
      "id,predicted_s,low_s,high_s,measured_s,error_pct,reason_skipped,predicted_bytes,"
      "measured_bytes,bytes_error_pct,framework,network,assumption_spread,stalled_s,"
      "differs_from_search\n";
  for (const RowOutcome& outcome : outcomes) {
    const RowPrediction& prediction = outcome.prediction;
    const std::optional<double>& measured = outcome.plan->measured_s;
    text += CsvField(outcome.plan->id);
    const bool predicted = prediction.seconds > 0;
    text += predicted ? fmt::format(",{:.6f},{:.6f},{:.6f}", prediction.seconds, prediction.low_s,
                                    prediction.high_s)
                      : ",,,";
    text += measured.has_value() ? fmt::format(",{:.6f}", *measured) : ",";
    text += predicted && measured.has_value()
                ? fmt::format(",{:.3f}", 100 * (prediction.seconds / *measured - 1))
                : ",";
    text += fmt::format(
        ",{}{},{},{},{:.4f},{:.6f},{}\n", CsvField(outcome.reason_skipped),
        BytesColumns(*outcome.plan), outcome.plan->style.framework, outcome.plan->cluster.network,
        outcome.plan->assumption_spread, prediction.stalled_s,
        CsvField(fmt::format("{}", fmt::join(outcome.plan->differs_from_search, "; "))));
  }
  return text;
}

// With that many digits, "-" for nothing.
std::string NumberOrDash(std::optional<double> value, int digits) {
  return value.has_value() ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string ErrorLine(const std::string& name,
                      const ErrorStatistics& errors,
                      const RankingStatistics& ranking) {
  std::string text = fmt::format("  {:<22}{:>8.2f}{:>8.2f}{:>8.1f}{:>8.1f}{:>8.1f}{:>9}", name,
                                 errors.mape_pct, errors.median_pct, errors.p90_pct,
                                 errors.worst_pct, errors.bias_pct, NumberOrDash(errors.r2, 4));
  if (ranking.groups > 0) {
    text += fmt::format("{:>8}{:>9.1f}{:>8.1f}", NumberOrDash(ranking.rank_correlation, 3),
                        ranking.median_regret_pct, ranking.worst_regret_pct);
  }
  return text + "\n";
}

std::string Counts(const char* title, const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) {
    text += fmt::format("  {:<9}{:>6}  {}\n", title, count, what);
  }
  return text;
}

std::string SummaryText(const SourceSummary& summary) {
  std::string text =
      fmt::format("{}: {} rows, {} compared\n", summary.source, summary.rows, summary.compared);
  text += Counts("skipped", summary.skipped);
  if (summary.compared > 0) {
    text += fmt::format("  {:<22}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}", "error, %", "MAPE", "median",
                        "p90", "worst", "bias", "R2");
    text += summary.ranking.groups > 0 ? "    rank  regret   worst\n" : "\n";
    text += ErrorLine("prism", summary.errors, summary.ranking);
    text += ErrorLine(fmt::format("baseline, {:.3f} of peak", summary.baseline_efficiency),
                      summary.baseline_errors, summary.baseline_ranking);
    text +=
        fmt::format("  interval: {:.1f} % of measured values inside, mean half width {:.1f} %\n",
                    summary.intervals.inside_pct, summary.intervals.mean_half_width_pct);
  }
  for (const PublishedError& error : summary.published) {
    text += fmt::format("  published: {} {} {} ({})\n", error.system, error.statistic,
                        error.error_pct, error.scope);
  }
  std::string fitted;
  for (const auto& [profile, count] : summary.fitted_parameters) {
    fitted += count.time == 0 ? "" : fmt::format(", {} {}", profile, count.time);
  }
  text += fmt::format("  fitted parameters: {}{}\n", summary.FittedParameterCount().time, fitted);
  return text + Counts("assumed", summary.assumed) + Counts("differs", summary.differs) +
         Counts("no memory", summary.memory_skipped);
}

void AddErrors(const std::string& prefix,
               const ErrorStatistics& errors,
               const RankingStatistics& ranking,
               std::vector<BenchMetric>* metrics) {
  const auto add = [&](const char* name, double value, const char* unit) {
    metrics->push_back({prefix + name, value, unit});
  };
  add("mape_pct", errors.mape_pct, "%");
  add("median_pct", errors.median_pct, "%");
  add("p90_pct", errors.p90_pct, "%");
  add("worst_pct", errors.worst_pct, "%");
  add("bias_pct", errors.bias_pct, "%");
  if (errors.r2.has_value()) {
    add("r2", *errors.r2, "1");
  }
  if (ranking.groups > 0) {
    if (ranking.rank_correlation.has_value()) {
      add("rank_correlation", *ranking.rank_correlation, "1");
    }
    add("median_regret_pct", ranking.median_regret_pct, "%");
    add("worst_regret_pct", ranking.worst_regret_pct, "%");
  }
}

BenchCase SummaryCase(const SourceSummary& summary) {
  BenchCase line = {"accuracy", summary.source, {}};
  std::vector<BenchMetric>& metrics = line.metrics;
  metrics.push_back({"rows", static_cast<double>(summary.rows), "rows"});
  metrics.push_back({"compared", static_cast<double>(summary.compared), "rows"});
  for (const auto& [reason, count] : summary.skipped) {
    metrics.push_back({"skipped: " + reason, static_cast<double>(count), "rows"});
  }
  if (summary.compared > 0) {
    AddErrors("", summary.errors, summary.ranking, &metrics);
    metrics.push_back({"inside_interval_pct", summary.intervals.inside_pct, "%"});
    metrics.push_back({"mean_half_width_pct", summary.intervals.mean_half_width_pct, "%"});
    metrics.push_back({"baseline_efficiency", summary.baseline_efficiency, "1"});
    AddErrors("baseline_", summary.baseline_errors, summary.baseline_ranking, &metrics);
  }
  for (const PublishedError& error : summary.published) {
    metrics.push_back(
        {fmt::format("published: {} {}", error.system, error.statistic), error.error_pct, "%"});
  }
  metrics.push_back({"fitted_parameters", static_cast<double>(summary.FittedParameterCount().time),
                     "parameters"});
  for (const auto& [what, count] : summary.assumed) {
    metrics.push_back({"assumed: " + what, static_cast<double>(count), "rows"});
  }
  for (const auto& [what, count] : summary.differs) {
    metrics.push_back({"differs " + what, static_cast<double>(count), "rows"});
  }
  for (const auto& [reason, count] : summary.memory_skipped) {
    metrics.push_back({"memory skipped: " + reason, static_cast<double>(count), "rows"});
  }
  return line;
}

// Counts cells whose text no line of words.csv explains: what they say is not predicted.
void ListUnknownCells(const std::vector<RowPlan>& plans, PublishedOutput* output) {
  std::map<std::string, int64_t> counts;
  int64_t cells = 0;
  for (const RowPlan& plan : plans) {
    for (const std::string& cell : plan.unknown_cells) {
      ++counts[cell];
      ++cells;
    }
  }
  if (cells == 0) {
    return;
  }
  output->text += fmt::format("warning: {} not understood\n", FormatCounted(cells, "cell"));
  BenchCase line = {"accuracy", "cells not understood", {}};
  for (const auto& [cell, count] : counts) {
    output->text += fmt::format("  {:>6}  {}\n", count, cell);
    line.metrics.push_back({cell, static_cast<double>(count), "cells"});
  }
  output->cases.push_back(std::move(line));
}

Status ReadParameterSet(const std::string& line, ProfileOverrides* overrides) {
  std::istringstream words(line);
  std::string word;
  while (words >> word) {
    const size_t colon = word.find(':');
    const size_t equals = word.find('=');
    double value = 0;
    const bool shaped = colon != std::string::npos && equals != std::string::npos && colon < equals;
    if (!shaped || !ParseNumber(std::string_view(word).substr(equals + 1), &value)) {
      return BadFile(fmt::format("'{}' is not profile:key=NUMBER", word));
    }
    (*overrides)[word.substr(0, colon)][word.substr(colon + 1, equals - colon - 1)] = value;
  }
  return OkStatus();
}

Result<std::string> PredictSets(const std::string& path, Predictor* predictor) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::istringstream lines(text);
  std::string line;
  std::string output;
  while (std::getline(lines, line)) {
    ProfileOverrides overrides;
    PRISM_RETURN_IF_ERROR(ReadParameterSet(line, &overrides).WithContext(path));
    PRISM_ASSIGN_OR_RETURN(const std::vector<RowPrediction> predictions,
                           predictor->Predict(overrides, /*with_intervals=*/false));
    for (size_t i = 0; i < predictions.size(); ++i) {
      const bool predicted = predictions[i].seconds > 0;
      output += fmt::format("{}{}", i == 0 ? "" : " ",
                            predicted ? fmt::format("{:.9g}", predictions[i].seconds) : "nan");
    }
    output += "\n";
  }
  return output;
}

// Jobs are divided among the processes of mpirun; each then has the predictions of all. Rows
// without a job have none, and say why themselves.
Result<std::vector<RowPrediction>> PredictTogether(const std::vector<RowPlan>& plans,
                                                   const ProfileOverrides& overrides,
                                                   MpiSession& session) {
  const auto predict_share = [&](int64_t share) -> Result<std::string> {
    Predictor predictor(
        plans, {.share = share, .shares = session.size(), .threads = DefaultThreads(session)});
    PRISM_ASSIGN_OR_RETURN(const std::vector<RowPrediction> predictions,
                           predictor.Predict(overrides, /*with_intervals=*/true));
    WireWriter writer;
    for (const size_t row : predictor.Rows()) {
      const RowPrediction& prediction = predictions[row];
      writer.Put(row).Put(prediction.seconds).Put(prediction.low_s).Put(prediction.high_s);
      writer.Put(prediction.stalled_s).Put(prediction.uneven).PutText(prediction.failure);
    }
    return writer.Take();
  };
  PRISM_ASSIGN_OR_RETURN(const std::vector<std::string> shares,
                         DistributeItems(session, session.size(), 1, predict_share));
  std::vector<RowPrediction> predictions(plans.size());
  for (const std::string& share : shares) {
    for (WireReader reader(share); !reader.empty();) {
      RowPrediction& prediction = predictions.at(reader.Get<size_t>());
      prediction.seconds = reader.Get<double>();
      prediction.low_s = reader.Get<double>();
      prediction.high_s = reader.Get<double>();
      prediction.stalled_s = reader.Get<double>();
      prediction.uneven = reader.Get<bool>();
      prediction.failure = reader.GetText();
    }
  }
  return predictions;
}

}  // namespace

Result<PublishedOutput> BenchAccuracy(const BenchAccuracyOptions& options) {
  const StopWatch watch;
  PRISM_ASSIGN_OR_RETURN(std::vector<RowPlan> plans, PlanTables(options.tables));
  ProfileOverrides overrides;
  for (const std::string& effect : options.without) {
    PRISM_RETURN_IF_ERROR(TakeAway(effect, &plans, &overrides));
  }
  PublishedOutput output;
  if (!options.parameter_sets.empty()) {
    Predictor predictor(plans);
    PRISM_ASSIGN_OR_RETURN(output.text, PredictSets(options.parameter_sets, &predictor));
    return output;
  }
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  PRISM_ASSIGN_OR_RETURN(std::vector<RowPrediction> predictions,
                         PredictTogether(plans, overrides, session));
  if (session.rank() != 0) {
    return output;
  }
  std::vector<RowOutcome> outcomes;
  for (size_t i = 0; i < plans.size(); ++i) {
    std::string reason = ReasonSkipped(plans[i], predictions[i]);
    outcomes.push_back({&plans[i], std::move(predictions[i]), std::move(reason)});
  }
  output.rows = RowsCsv(outcomes);
  PRISM_ASSIGN_OR_RETURN(const std::vector<SourceSummary> summaries, Summarise(outcomes));
  const std::map<std::string, ErrorStatistics> memory = MemoryErrors(plans);
  for (const SourceSummary& summary : summaries) {
    output.text += SummaryText(summary);
    output.cases.push_back(SummaryCase(summary));
    if (const auto errors = memory.find(summary.source); errors != memory.end()) {
      output.text += fmt::format("  peak memory: {} rows, fitted parameters: {}\n",
                                 errors->second.points, summary.FittedParameterCount().memory);
      output.text += ErrorLine("prism, bytes", errors->second, {});
      AddErrors("memory_", errors->second, {}, &output.cases.back().metrics);
    }
  }
  ListUnknownCells(plans, &output);
  const double seconds = watch.Seconds();
  const double rate = static_cast<double>(plans.size()) / seconds;
  output.text += fmt::format("{} rows in {:.2f} s, {:.0f} rows/s\n", plans.size(), seconds, rate);
  return output;
}

}  // namespace prism::launch
