#include "launch/analyse/replay_difference.h"

#include <vector>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "launch/inputs/edit_file.h"
#include "replayer/gains.h"
#include "replayer/ineffective_perturbations.h"
#include "replayer/replay.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {

namespace {

struct Evaluation {
  double before = 0;  // seconds of the last iteration
  double after = 0;
  int64_t changed_ranks = 0;
};

Result<Evaluation> Evaluate(const graph::Graph& graph,
                            const replayer::ReplayOptions& options,
                            const EditFile& file) {
  PRISM_ASSIGN_OR_RETURN(
      const replayer::EditedJob job,
      replayer::ApplyEdit(file.program ? *file.program : graph, options, file.edit));
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult before, replayer::Replay(graph, options));
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult after,
                         replayer::Replay(job.graph, job.options));
  Evaluation times = {SecondsFromNs(before.steady_iteration_ns()),
                      SecondsFromNs(after.steady_iteration_ns()), 0};
  for (size_t rank = 0; rank < before.ranks.size(); ++rank) {
    times.changed_ranks += before.ranks[rank] == after.ranks[rank] ? 0 : 1;
  }
  return times;
}

}  // namespace

Result<std::string> EditDifference(const graph::Graph& graph,
                                   const replayer::ReplayOptions& options,
                                   const std::string& edit_file,
                                   OutputFormat format) {
  PRISM_ASSIGN_OR_RETURN(const EditFile file, ReadEditFile(edit_file, graph, options));
  const Result<Evaluation> evaluated = Evaluate(graph, options, file);
  if (!evaluated.ok()) {
    return FaultOfEdit(evaluated.status(), edit_file);
  }
  const Evaluation& times = *evaluated;
  PRISM_ASSIGN_OR_RETURN(const std::vector<graph::Warning> warnings,
                         replayer::WarnOfNoEffect(graph, options));
  const double change = times.after - times.before;
  const auto ranks = static_cast<int64_t>(graph.ranks.size());
  if (format == OutputFormat::kText) {
    std::string lines = fmt::format(
        "iteration time: baseline {}, edited {}, difference {:+.{}f} s ({:+.3f} %); "
        "{} of {} ranks differ\n",
        replayer::FineSeconds(times.before), replayer::FineSeconds(times.after), change,
        replayer::FineDecimals(times.before), 100 * (times.after / times.before - 1),
        times.changed_ranks, ranks);
    lines += warnings.empty() ? "" : replayer::WarningLines(warnings);
    for (const std::string& line : file.memory) {
      lines += fmt::format("  memory   {}\n", line);
    }
    for (const std::string& line : file.assumptions) {
      lines += fmt::format("  assumed  {}\n", line);
    }
    return lines;
  }
  return JsonText([&](JsonWriter& json) {
    json.Key("iteration_s").BeginObject();
    json.Field("baseline", times.before).Field("edited", times.after).Field("difference", change);
    json.EndObject();
    json.Field("changed_ranks", times.changed_ranks).Field("ranks", ranks);
    replayer::WriteWarnings(warnings, &json);
    json.ArrayField("memory", file.memory);
    json.ArrayField("assumptions", file.assumptions);
  });
}

Result<std::string> Gains(const graph::Graph& graph,
                          const replayer::ReplayOptions& options,
                          OutputFormat format) {
  PRISM_ASSIGN_OR_RETURN(const replayer::GainReport report, replayer::FindGains(graph, options));
  const double seconds = SecondsFromNs(report.iteration_ns);
  if (format == OutputFormat::kText) {
    std::string text = fmt::format("iteration time {}; without\n", replayer::FineSeconds(seconds));
    for (const replayer::Gain& gain : report.gains) {
      const double without = SecondsFromNs(gain.iteration_ns);
      text += fmt::format("  {:<28}{}  {:+.2f} %\n", gain.what, replayer::FineSeconds(without),
                          100 * (without / seconds - 1));
    }
    return text;
  }
  return JsonText([&](JsonWriter& json) {
    json.Field("iteration_s", seconds);
    json.ObjectsField("without", report.gains, [&](const replayer::Gain& gain) {
      const double without = SecondsFromNs(gain.iteration_ns);
      json.Field("what", gain.what).Field("iteration_s", without);
      json.Field("gain_s", seconds - without);
    });
  });
}

}  // namespace prism::launch
