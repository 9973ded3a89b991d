#include "experiments/published/measured_runs.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/csv_field.h"
#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "graph/base/units.h"
#include "launch/inputs/presets.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/replay.h"

#include "experiments/published/predictor.h"
#include "experiments/published/published_row.h"
#include "experiments/published/run_log.h"

namespace prism::launch {
namespace {

// "PATH=SECONDS".
std::optional<std::pair<std::string, double>> RunWithSeconds(const std::string& input) {
  const size_t equals = input.rfind('=');
  double seconds = 0;
  if (equals == std::string::npos || equals == 0 ||
      !ParseNumber(std::string_view(input).substr(equals + 1), &seconds) || !(seconds > 0)) {
    return std::nullopt;
  }
  return std::pair(input.substr(0, equals), seconds);
}

// A table of one row.
std::string TableOf(const std::map<std::string, std::string>& columns) {
  std::vector<std::string> names;
  std::vector<std::string> fields;
  for (const auto& [column, text] : columns) {
    names.push_back(column);
    fields.push_back(CsvField(text));
  }
  return fmt::format("{}\n{}\n", fmt::join(names, ","), fmt::join(fields, ","));
}

// Seconds of an iteration from a rate of tokens or samples.
std::optional<double> SecondsFromRate(const PublishedRow& row, const graph::JobSpec& job) {
  const auto tokens = static_cast<double>(job.tokens_per_iteration());
  const auto gpus = static_cast<double>(job.parallel.world_size());
  for (const auto& [column, amount] :
       {std::pair{"tokens_per_s", tokens},
        {"tokens_per_s_per_gpu", tokens / gpus},
        {"samples_per_s", static_cast<double>(job.global_batch_size)}}) {
    const std::optional<double> rate = row.Number(column);
    if (rate.has_value() && *rate > 0) {
      return amount / *rate;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<MeasuredRuns> MeasuredRuns::Read(const std::vector<std::string>& inputs,
                                        const std::map<std::string, std::string>& stated) {
  MeasuredRuns runs;
  std::vector<std::pair<std::string, double>> graphs;
  for (const std::string& input : inputs) {
    if (const auto run = RunWithSeconds(input); run.has_value()) {
      graphs.push_back(*run);
      continue;
    }
    if (std::filesystem::is_directory(input) || input.ends_with(".prism")) {
      return InvalidArgument(fmt::format(
          "{0}: say what its iteration took on the cluster, in seconds: {0}=SECONDS", input));
    }
    PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(input));
    PRISM_RETURN_IF_ERROR(input.ends_with(".csv") ? runs.AddTable(input, text)
                                                  : runs.AddLog(input, text, stated));
  }
  for (const auto& [path, seconds] : graphs) {
    PRISM_RETURN_IF_ERROR(runs.AddGraph(path, seconds));
  }
  return runs;
}

Result<std::vector<double>> MeasuredRuns::SecondsAt(const Site& site) const {
  PRISM_ASSIGN_OR_RETURN(std::vector<double> seconds, launch::SecondsAt(site, rows_));
  for (const graph::LoadedGraph& loaded : graphs_) {
    graph::Graph graph = loaded.graph;
    ApplySite(site, "prism calibrate", &graph.cluster);
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, {}));
    seconds.push_back(SecondsFromNs(result.steady_iteration_ns()));
  }
  return seconds;
}

Status MeasuredRuns::AddTable(const std::string& path, std::string_view text) {
  PRISM_ASSIGN_OR_RETURN(const PublishedTable table, ParsePublishedTable(text, path));
  for (const PublishedRow& row : table.Rows()) {
    PRISM_RETURN_IF_ERROR(AddRow(row).WithContext(path));
  }
  return OkStatus();
}

Status MeasuredRuns::AddLog(const std::string& path,
                            std::string_view text,
                            const std::map<std::string, std::string>& stated) {
  PRISM_ASSIGN_OR_RETURN(auto columns, ReadRunLog(text, path));
  columns["id"] = path;
  for (std::string& column : AllColumns()) {
    columns.try_emplace(std::move(column));
  }
  for (const auto& [column, value] : stated) {
    columns[column] = value;
  }
  PRISM_ASSIGN_OR_RETURN(const PublishedTable table, ParsePublishedTable(TableOf(columns), path));
  return AddRow(table.Rows().front());
}

Status MeasuredRuns::AddRow(const PublishedRow& row) {
  RowPlan plan = PlanRow(row);
  constexpr const char* kHelp = "what a log leaves out is stated by --row \"COLUMN=VALUE;...\"";
  if (!plan.cannot_predict.empty()) {
    return InvalidArgument(fmt::format("{}: {}; {}", plan.id, plan.cannot_predict, kHelp));
  }
  if (!plan.measured_s.has_value()) {
    plan.measured_s = SecondsFromRate(row, plan.job);
  }
  if (!plan.measured_s.has_value()) {
    return InvalidArgument(
        fmt::format("{}: has no measured time of an iteration; {}", plan.id, kHelp));
  }
  PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, ComposeCluster(plan.cluster.profiles, {}));
  cluster.gpus_per_node = plan.cluster.gpus_per_node;
  PRISM_RETURN_IF_ERROR(CheckCluster(plan.id, cluster));
  names_.push_back(plan.id);
  measured_s_.push_back(*plan.measured_s);
  rows_.push_back(std::move(plan));
  return OkStatus();
}

Status MeasuredRuns::AddGraph(const std::string& path, double seconds) {
  PRISM_ASSIGN_OR_RETURN(graph::LoadedGraph loaded, graph::LoadValidGraph(path));
  PRISM_RETURN_IF_ERROR(replayer::RefuseUncosted(loaded));
  PRISM_RETURN_IF_ERROR(CheckCluster(path, loaded.graph.cluster));
  names_.push_back(path);
  measured_s_.push_back(seconds);
  graphs_.push_back(std::move(loaded));
  return OkStatus();
}

Status MeasuredRuns::CheckCluster(const std::string& name, const graph::ClusterSpec& cluster) {
  if (names_.empty()) {
    cluster_ = cluster;
    return OkStatus();
  }
  if (cluster.gpu != cluster_.gpu) {
    return InvalidArgument(
        fmt::format("{} ran on {}, and {} on {}: one file is calibrated for one kind of machine",
                    names_.front(), cluster_.gpu.name, name, cluster.gpu.name));
  }
  return OkStatus();
}

}  // namespace prism::launch
