#include "launch/analyse/shared_network.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "graph/base/json_writer.h"
#include "graph/base/parse_number.h"
#include "replayer/ineffective_perturbations.h"
#include "replayer/network/flow_replay.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {
namespace {

struct JobArgument {
  std::string path;
  int32_t first_node = -1;  // -1: behind the others
};

// A path may contain colons; what follows the last one is a node if it is a number.
JobArgument ParseJob(const std::string& text) {
  JobArgument job = {text, -1};
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos && colon + 1 < text.size()) {
    int32_t node = -1;
    if (ParseNumber(std::string_view(text).substr(colon + 1), &node) && node >= 0) {
      job = {text.substr(0, colon), node};
    }
  }
  return job;
}

struct JobLine {
  std::string path;
  int32_t first_node = 0;
  double alone_s = 0;
  double together_s = 0;
};

std::string SharedJobsText(const std::vector<JobLine>& lines,
                           const std::vector<graph::Warning>& warnings) {
  std::string text;
  for (const JobLine& line : lines) {
    text += fmt::format("{}, from node {}: iteration time {} alone, {} together ({:+.2f} %)\n",
                        line.path, line.first_node, replayer::FineSeconds(line.alone_s),
                        replayer::FineSeconds(line.together_s),
                        100 * (line.together_s / line.alone_s - 1));
  }
  return text + (warnings.empty() ? "" : replayer::WarningLines(warnings));
}

std::string Json(const std::vector<JobLine>& lines, const std::vector<graph::Warning>& warnings) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Key("jobs").BeginArray();
  for (const JobLine& line : lines) {
    json.BeginObject();
    json.Field("graph", line.path).Field("first_node", int64_t{line.first_node});
    json.Field("alone_s", line.alone_s).Field("together_s", line.together_s);
    json.EndObject();
  }
  json.EndArray();
  replayer::WriteWarnings(warnings, &json);
  json.EndObject();
  return text + "\n";
}

}  // namespace

Result<std::string> ReplayOnSharedNetwork(const graph::LoadedGraph& first,
                                          const replayer::ReplayOptions& options,
                                          const std::vector<std::string>& specs,
                                          OutputFormat format) {
  std::deque<graph::LoadedGraph> others;
  std::vector<JobLine> lines = {{first.path, 0, 0, 0}};
  std::vector<replayer::NetworkJob> jobs = {{&first.graph, options, 0}};
  int32_t end = 0;
  const auto add_nodes = [&end](const replayer::NetworkJob& job) {
    const int32_t gpus = job.graph->cluster.gpus_per_node;
    const auto ranks = static_cast<int32_t>(job.graph->ranks.size());
    end = std::max(end, job.first_node + DivideUp(ranks, gpus));
  };
  add_nodes(jobs.front());
  replayer::ReplayOptions plain = options;
  plain.perturbations.clear();
  for (const std::string& text : specs) {
    const JobArgument spec = ParseJob(text);
    PRISM_ASSIGN_OR_RETURN(graph::LoadedGraph loaded, graph::LoadValidGraph(spec.path));
    others.push_back(std::move(loaded));
    const int32_t node = spec.first_node >= 0 ? spec.first_node : end;
    jobs.push_back({&others.back().graph, plain, node});
    lines.push_back({spec.path, node, 0, 0});
    add_nodes(jobs.back());
  }
  // The job by itself, at the same place in the same network.
  replayer::NetworkSetup network;
  const auto keep = [&](replayer::NetworkSetup* setup) { network = *setup; };
  const auto reuse = [&](replayer::NetworkSetup* setup) { *setup = network; };
  PRISM_ASSIGN_OR_RETURN(const auto together, replayer::ReplayTogether(jobs, keep));
  for (size_t i = 0; i < jobs.size(); ++i) {
    PRISM_ASSIGN_OR_RETURN(const auto alone, replayer::ReplayTogether({jobs[i]}, reuse));
    lines[i].alone_s = SecondsFromNs(alone.front().steady_iteration_ns());
    lines[i].together_s = SecondsFromNs(together[i].steady_iteration_ns());
  }
  PRISM_ASSIGN_OR_RETURN(const std::vector<graph::Warning> warnings,
                         replayer::WarnOfNoEffect(first.graph, options));
  return format == OutputFormat::kJson ? Json(lines, warnings) : SharedJobsText(lines, warnings);
}

}  // namespace prism::launch
