#include "launch/analyse/replay_sweep.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "launch/analyse/replay_summary.h"
#include "replayer/cost/parameters.h"
#include "replayer/ineffective_perturbations.h"
#include "replayer/report/json.h"
#include "replayer/report/scatter_plot.h"
#include "replayer/report/text.h"

namespace prism::launch {
Result<ReplaySweep> SweepReplay(const graph::LoadedGraph& loaded,
                                const Variation& variation,
                                const JobAtValue& job) {
  if (variation.key == "gpu.memory_bytes") {
    return InvalidArgument(
        "--vary: gpu.memory_bytes changes no time of a recorded job; vary another parameter");
  }
  ReplaySweep sweep = {variation, {}, {}, {}};
  sweep.assumptions.push_back(fmt::format(
      "everything but {} stays as in the graph's cluster, and measured kernels keep their times",
      variation.key));
  for (int step = 0; step < variation.steps; ++step) {
    ReplayPoint point;
    point.value = variation.ValueAt(step);
    graph::LoadedGraph varied = loaded;
    PRISM_ASSIGN_OR_RETURN(varied.graph.cluster,
                           VariedCluster(loaded.graph.cluster, variation.key, point.value));
    const std::vector<std::string> faults =
        replayer::CheckParameters(varied.graph.cluster.parameters);
    if (!faults.empty()) {
      return InvalidArgument(fmt::format("--vary: {}", faults.front()));
    }
    PRISM_ASSIGN_OR_RETURN(replayer::EditedJob at_value, job(varied.graph, point.value));
    varied.graph = std::move(at_value.graph);
    // An edit may state the number too.
    PRISM_ASSIGN_OR_RETURN(varied.graph.cluster,
                           VariedCluster(varied.graph.cluster, variation.key, point.value));
    PRISM_ASSIGN_OR_RETURN(point.summary, ReplaySummary(varied, at_value.options, Warns::kNot));
    if (step == 0) {
      PRISM_ASSIGN_OR_RETURN(sweep.warnings,
                             replayer::WarnOfNoEffect(varied.graph, at_value.options));
    }
    sweep.points.push_back(std::move(point));
  }
  return sweep;
}

std::string ReplaySweepText(const ReplaySweep& sweep) {
  int decimals = 0;
  for (const ReplayPoint& point : sweep.points) {
    decimals = std::max(decimals, replayer::FineDecimals(point.summary.iteration_time_s));
  }
  const int width = decimals + 5;
  std::string text = fmt::format(
      "iteration time over {}\n{:>14}{:>{}}{:>{}}{:>{}}{:>12}{:>9}{:>9}{:>9}{:>9}{:>8}\n",
      sweep.variation.key, "value", "iter, s", width, "low, s", width, "high, s", width, "tokens/s",
      "compute", "comm", "bubble", "idle", "MFU");
  for (const auto& [value, summary] : sweep.points) {
    const replayer::TimeShares& parts = summary.breakdown;
    text += fmt::format(
        "{:>14.6g}{:>{}.{}f}{:>{}.{}f}{:>{}.{}f}{:>12}{:>7.1f} %{:>7.1f} %{:>7.1f} %{:>7.1f} "
        "%{:>8}\n",
        value, summary.iteration_time_s, width, decimals, summary.iteration_time_low_s, width,
        decimals, summary.iteration_time_high_s, width, decimals,
        summary.tokens_per_s ? fmt::format("{:.0f}", *summary.tokens_per_s) : "-",
        100 * parts.compute, 100 * parts.exposed_comm, 100 * parts.bubble, 100 * parts.idle,
        summary.mfu ? fmt::format("{:.1f} %", 100 * *summary.mfu) : "-");
  }
  text += sweep.warnings.empty() ? "" : replayer::WarningLines(sweep.warnings);
  for (const std::string& assumption : sweep.assumptions) {
    text += fmt::format("  assumed    {}\n", assumption);
  }
  return text;
}

std::string ReplaySweepJson(const ReplaySweep& sweep) {
  return JsonText([&](JsonWriter& json) {
    json.Field("vary", sweep.variation.key);
    json.ObjectsField("points", sweep.points, [&](const ReplayPoint& point) {
      const replayer::Summary& summary = point.summary;
      json.Field("value", point.value);
      json.Field("iteration_time_s", summary.iteration_time_s);
      json.Field("iteration_time_low_s", summary.iteration_time_low_s);
      json.Field("iteration_time_high_s", summary.iteration_time_high_s);
      json.OptionalField("tokens_per_s", summary.tokens_per_s);
      json.OptionalField("mfu", summary.mfu);
      json.Key("breakdown").BeginObject();
      json.Field("compute", summary.breakdown.compute);
      json.Field("exposed_comm", summary.breakdown.exposed_comm);
      json.Field("bubble", summary.breakdown.bubble).Field("idle", summary.breakdown.idle);
      json.EndObject();
    });
    replayer::WriteWarnings(sweep.warnings, &json);
    json.ArrayField("assumptions", sweep.assumptions);
  });
}

std::string ReplaySweepCsv(const ReplaySweep& sweep) {
  std::string text = fmt::format(
      "{},iteration_time_s,iteration_time_low_s,iteration_time_high_s,tokens_per_s,mfu,compute,"
      "exposed_comm,bubble,idle\n",
      sweep.variation.key);
  for (const auto& [value, summary] : sweep.points) {
    const replayer::TimeShares& parts = summary.breakdown;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", value, summary.iteration_time_s,
                        summary.iteration_time_low_s, summary.iteration_time_high_s,
                        summary.tokens_per_s ? fmt::format("{}", *summary.tokens_per_s) : "",
                        summary.mfu ? fmt::format("{}", *summary.mfu) : "", parts.compute,
                        parts.exposed_comm, parts.bubble, parts.idle);
  }
  return text;
}

std::string ReplaySweepSvg(const ReplaySweep& sweep) {
  std::vector<replayer::ScatterPoint> dots;
  for (const auto& [value, summary] : sweep.points) {
    dots.push_back(
        {value, summary.iteration_time_s,
         fmt::format("{:.6g}: {}", value, replayer::FineSeconds(summary.iteration_time_s)), true});
  }
  return replayer::ScatterSvg({"iteration time", sweep.variation.key, "seconds"}, dots);
}

}  // namespace prism::launch
