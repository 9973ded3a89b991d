#include "launch/verbs/replay_difference.h"

#include <memory>
#include <vector>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "launch/verbs/edit_file.h"
#include "replayer/delta/delta_replay.h"
#include "replayer/gains.h"

namespace prism::launch {

using replayer::DeltaReplay;
using replayer::DeltaResult;

Result<std::string> EditDifference(const graph::Graph& graph,
                                   const replayer::ReplayOptions& options,
                                   const std::string& edit_file,
                                   OutputFormat format) {
  PRISM_ASSIGN_OR_RETURN(const EditFile file, ReadEditFile(edit_file, graph, options));
  PRISM_ASSIGN_OR_RETURN(const std::unique_ptr<DeltaReplay> recorded,
                         DeltaReplay::Record(graph, options));
  PRISM_ASSIGN_OR_RETURN(const DeltaResult edited, recorded->Evaluate(file.edit));
  const double before = SecondsFromNs(recorded->baseline().steady_iteration_ns());
  const double after = SecondsFromNs(edited.replay->steady_iteration_ns());
  const auto ranks = static_cast<int64_t>(graph.ranks.size());
  const std::string evaluation =
      edited.full ? fmt::format("a full replay ({})", edited.why_full)
                  : fmt::format("{} of {} ranks differ", edited.changed_ranks, ranks);
  if (format == OutputFormat::kText) {
    std::string lines = fmt::format(
        "iteration time: baseline {:.6f} s, edited {:.6f} s, difference {:+.6f} s ({:+.3f} %); "
        "{}\n",
        before, after, after - before, 100 * (after / before - 1), evaluation);
    for (const std::string& assumption : file.assumptions) {
      lines += fmt::format("  assumed  {}\n", assumption);
    }
    return lines;
  }
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Key("iteration_s").BeginObject();
  json.Field("baseline", before).Field("edited", after).Field("difference", after - before);
  json.EndObject();
  json.Field("evaluation", edited.full ? "full" : "delta");
  if (edited.full) {
    json.Field("why_full", edited.why_full);
  }
  json.Field("changed_ranks", edited.full ? ranks : edited.changed_ranks).Field("ranks", ranks);
  json.Key("assumptions").BeginArray();
  for (const std::string& assumption : file.assumptions) {
    json.Value(assumption);
  }
  json.EndArray().EndObject();
  return text + "\n";
}

Result<std::string> Gains(const graph::Graph& graph,
                          const replayer::ReplayOptions& options,
                          OutputFormat format) {
  PRISM_ASSIGN_OR_RETURN(const replayer::GainReport report, replayer::FindGains(graph, options));
  const double seconds = SecondsFromNs(report.iteration_ns);
  if (format == OutputFormat::kText) {
    std::string text = fmt::format("iteration time {:.6f} s; without\n", seconds);
    for (const replayer::Gain& gain : report.gains) {
      const double without = SecondsFromNs(gain.iteration_ns);
      text += fmt::format("  {:<28}{:.6f} s  {:+.2f} %\n", gain.what, without,
                          100 * (without / seconds - 1));
    }
    return text;
  }
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("iteration_s", seconds);
  json.Key("without").BeginArray();
  for (const replayer::Gain& gain : report.gains) {
    const double without = SecondsFromNs(gain.iteration_ns);
    json.BeginObject();
    json.Field("what", gain.what).Field("iteration_s", without);
    json.Field("gain_s", seconds - without);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return text + "\n";
}

}  // namespace prism::launch
