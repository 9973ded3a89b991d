// `prism calibrate`: a cluster file from a user's own runs (calibration.h, measured_runs.h).
#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "launch/inputs/cluster_text.h"
#include "launch/inputs/presets.h"

#include "experiments/published/benches.h"
#include "experiments/published/calibration.h"
#include "experiments/published/measured_runs.h"

namespace prism::launch {
namespace {

// "layers=32;hidden=4096", as columns.
Result<std::map<std::string, std::string>> StatedColumns(const CalibrateOptions& options) {
  std::map<std::string, std::string> columns;
  if (!options.model.empty()) {
    PRISM_ASSIGN_OR_RETURN(const ModelPreset preset, LoadModel(options.model));
    const graph::ModelSpec& model = preset.model;
    columns["model"] = model.name;
    for (const auto& [column, value] : {std::pair{"layers", model.layers},
                                        {"hidden", model.hidden},
                                        {"heads", model.heads},
                                        {"kv_heads", model.kv_heads},
                                        {"ffn", model.ffn},
                                        {"vocab", model.vocab},
                                        {"experts", model.moe.experts},
                                        {"moe_topk", model.moe.topk},
                                        {"moe_ffn", model.moe.expert_ffn}}) {
      if (value > 0) {
        columns[column] = fmt::format("{}", value);
      }
    }
  }
  std::string_view rest = options.row;
  while (!rest.empty()) {
    const std::string entry(rest.substr(0, rest.find(';')));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const size_t equals = entry.find('=');
    const std::string column = entry.substr(0, equals);
    if (equals == std::string::npos || ColumnEntry(column, "kind").empty()) {
      return InvalidArgument(fmt::format("--row: '{}' is not COLUMN=VALUE; columns: {}", entry,
                                         fmt::join(AllColumns(), ", ")));
    }
    columns[column] = entry.substr(equals + 1);
  }
  return columns;
}

double ErrorPct(double predicted, double measured) {
  return 100 * (predicted / measured - 1);
}

std::string FactorText(const FittedFactor& factor) {
  std::string text = fmt::format("  {:<22}{:<38}{:>8.3f}   ± {:>4.1f} %", factor.name,
                                 factor.parameters, factor.value, 100 * factor.spread_after);
  if (!factor.determined) {
    text += fmt::format("   not determined by these runs (± {:.0f} % before)",
                        100 * factor.spread_before);
  }
  return text + (factor.unlikely ? "   unlikely: is each run what it is said to be?\n" : "\n");
}

std::string CalibrationText(const MeasuredRuns& runs,
                            const Calibration& calibration,
                            const std::string& out) {
  std::string text =
      fmt::format("{} of {}\n\n  {:<60}{:>8}   spread\n", FormatCounted(runs.names().size(), "run"),
                  runs.cluster().gpu.name, "factor", "value");
  for (const FittedFactor& factor : calibration.factors) {
    text += FactorText(factor);
  }
  text += fmt::format("\n  {:<40}{:>12}{:>20}{:>20}\n", "run", "measured", "before", "after");
  for (size_t i = 0; i < runs.names().size(); ++i) {
    const double measured = runs.measured_s()[i];
    const double before = calibration.before_s[i];
    const double after = calibration.after_s[i];
    text += fmt::format("  {:<40}{:>10.4f} s{:>10.4f} s {:>+6.1f} %{:>10.4f} s {:>+6.1f} %\n",
                        runs.names()[i], measured, before, ErrorPct(before, measured), after,
                        ErrorPct(after, measured));
  }
  std::map<std::string, int64_t> assumed;
  for (const RowPlan& plan : runs.rows()) {
    for (const std::string& what : plan.assumptions) {
      ++assumed[what];
    }
  }
  text += assumed.empty() ? "" : "\n";
  for (const auto& [what, count] : assumed) {
    text += fmt::format("  assumed   {:>4}  {}\n", count, what);
  }
  return text + fmt::format("\nwrote {0}; use it by --cluster {0}\n", out);
}

std::string CalibrationJson(const MeasuredRuns& runs,
                            const Calibration& calibration,
                            const std::string& out) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("file", out);
  json.Field("gpu", runs.cluster().gpu.name);
  json.Key("factors").BeginArray();
  for (const FittedFactor& factor : calibration.factors) {
    json.BeginObject();
    json.Field("name", factor.name);
    json.Field("parameters", factor.parameters);
    json.Field("value", factor.value);
    json.Field("spread_before", factor.spread_before);
    json.Field("spread_after", factor.spread_after);
    json.Field("determined", factor.determined);
    json.Field("unlikely", factor.unlikely);
    json.EndObject();
  }
  json.EndArray();
  json.Key("runs").BeginArray();
  for (size_t i = 0; i < runs.names().size(); ++i) {
    json.BeginObject();
    json.Field("name", runs.names()[i]);
    json.Field("measured_s", runs.measured_s()[i]);
    json.Field("before_s", calibration.before_s[i]);
    json.Field("after_s", calibration.after_s[i]);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return text + "\n";
}

}  // namespace

Result<std::string> RunCalibration(const CalibrateOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const auto stated, StatedColumns(options));
  PRISM_ASSIGN_OR_RETURN(const MeasuredRuns runs, MeasuredRuns::Read(options.inputs, stated));
  PRISM_ASSIGN_OR_RETURN(
      const Calibration calibration,
      Calibrate(runs.measured_s(), [&](const Site& site) { return runs.SecondsAt(site); }));
  graph::ClusterSpec cluster = runs.cluster();
  const std::string source = fmt::format("prism calibrate: {}", fmt::join(runs.names(), ", "));
  cluster.name = std::filesystem::path(options.out).stem().string();
  cluster.source = fmt::format("{}; {}", cluster.source, source);
  ApplySite(calibration.site, source, &cluster);
  PRISM_RETURN_IF_ERROR(WriteFileAtomically(options.out, ClusterText(cluster)));
  return options.json ? CalibrationJson(runs, calibration, options.out)
                      : CalibrationText(runs, calibration, options.out);
}

}  // namespace prism::launch
