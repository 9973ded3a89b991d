#include "launch/analyse/shared_network.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <fmt/format.h>

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
  return JsonText([&](JsonWriter& json) {
    json.ObjectsField("jobs", lines, [&](const JobLine& line) {
      json.Field("graph", line.path).Field("first_node", int64_t{line.first_node});
      json.Field("alone_s", line.alone_s).Field("together_s", line.together_s);
    });
    replayer::WriteWarnings(warnings, &json);
  });
}

// The time that a job's iterations take in all.
DurationNs WholeTime(const replayer::ReplayResult& result) {
  return std::accumulate(result.iteration_ns.begin(), result.iteration_ns.end(), DurationNs{0});
}

// The mean iteration among those that end by `end`, at least one; the first, which begins cold,
// counts only if it is alone.
double MeanUntil(const replayer::ReplayResult& result, DurationNs end) {
  DurationNs sum = 0;
  DurationNs from = 0;
  int64_t count = 0;
  for (const DurationNs iteration : result.iteration_ns) {
    if (count > 0 && sum + iteration > end) {
      break;
    }
    sum += iteration;
    from = count == 0 ? iteration : from;
    ++count;
  }
  return count > 1 ? SecondsFromNs(sum - from) / static_cast<double>(count - 1)
                   : SecondsFromNs(sum);
}

// Where each job lies, and whom it must not meet.
Result<std::vector<replayer::NetworkJob>> Place(const SharedJobs& shared,
                                                const std::deque<graph::LoadedGraph>& others,
                                                std::vector<JobLine>* lines) {
  std::vector<replayer::NetworkJob> jobs = {{&shared.first.graph, shared.options, 0}};
  std::vector<uint32_t> sizes = {NodesOf(shared.first.graph)};
  auto end = static_cast<int32_t>(sizes.front());
  replayer::ReplayOptions plain = shared.options;
  plain.perturbations.clear();
  for (size_t i = 0; i < others.size(); ++i) {
    JobLine& line = (*lines)[i + 1];
    const graph::Graph& graph = others[i].graph;
    sizes.push_back(NodesOf(graph));
    if (line.first_node >= 0 && shared.placement != PlacementPolicy::kPacked) {
      return InvalidArgument(
          fmt::format("--job {}:{}: --placement {} says which nodes it has; leave the node out",
                      line.path, line.first_node, NameOf(kPlacementNames, shared.placement)));
    }
    line.first_node = line.first_node >= 0 ? line.first_node : end;
    jobs.push_back({&graph, plain, line.first_node});
    end = std::max(end, line.first_node + static_cast<int32_t>(sizes.back()));
  }
  if (shared.placement == PlacementPolicy::kPacked) {
    return jobs;
  }
  const auto nodes = NodesOfJobs(shared.placement, sizes, shared.options.seed);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].options.placement = GpusOnNodes(*jobs[i].graph, nodes[i]);
    jobs[i].first_node = 0;
    (*lines)[i].first_node = static_cast<int32_t>(nodes[i].front());
  }
  return jobs;
}

// As many iterations of each job as the slowest needs for its own.
Status Repeat(const std::vector<JobLine>& lines, std::vector<replayer::NetworkJob>* jobs) {
  constexpr double kMostIterations = 100'000;
  double longest = 0;
  for (const JobLine& line : lines) {
    longest = std::max(longest, line.alone_s);
  }
  for (size_t i = 0; i < jobs->size(); ++i) {
    int32_t& iterations = (*jobs)[i].options.iterations;
    const double needed = lines[i].alone_s > 0 ? iterations * longest / lines[i].alone_s : 0;
    if (needed > kMostIterations) {
      return InvalidArgument(
          fmt::format("--job: {} would repeat {:.0f} times while the slowest job has its "
                      "iterations; at most {:.0f} are replayed",
                      lines[i].path, needed, kMostIterations));
    }
    iterations = std::max(iterations, static_cast<int32_t>(std::ceil(needed)));
  }
  return OkStatus();
}

}  // namespace

Result<std::string> ReplayOnSharedNetwork(const SharedJobs& shared, OutputFormat format) {
  std::deque<graph::LoadedGraph> others;
  std::vector<JobLine> lines = {{shared.first.path, 0, 0, 0}};
  for (const std::string& text : shared.more) {
    const JobArgument spec = ParseJob(text);
    PRISM_ASSIGN_OR_RETURN(graph::LoadedGraph loaded, graph::LoadValidGraph(spec.path));
    others.push_back(std::move(loaded));
    lines.push_back({spec.path, spec.first_node, 0, 0});
  }
  PRISM_ASSIGN_OR_RETURN(std::vector<replayer::NetworkJob> jobs, Place(shared, others, &lines));
  // The job by itself, at the same place in the same network.
  replayer::NetworkSetup network;
  const auto keep = [&](replayer::NetworkSetup* setup) { network = *setup; };
  const auto reuse = [&](replayer::NetworkSetup* setup) { *setup = network; };
  std::vector<replayer::NetworkJob> once = jobs;
  for (replayer::NetworkJob& job : once) {
    job.options.iterations = 1;
  }
  PRISM_RETURN_IF_ERROR(replayer::ReplayTogether(once, keep).status());
  for (size_t i = 0; i < jobs.size(); ++i) {
    PRISM_ASSIGN_OR_RETURN(const auto alone, replayer::ReplayTogether({jobs[i]}, reuse));
    lines[i].alone_s = MeanUntil(alone.front(), WholeTime(alone.front()));
  }
  PRISM_RETURN_IF_ERROR(Repeat(lines, &jobs));
  PRISM_ASSIGN_OR_RETURN(const auto together, replayer::ReplayTogether(jobs, keep));
  DurationNs end = WholeTime(together.front());
  for (const replayer::ReplayResult& result : together) {
    end = std::min(end, WholeTime(result));
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    lines[i].together_s = MeanUntil(together[i], end);
  }
  PRISM_ASSIGN_OR_RETURN(const std::vector<graph::Warning> warnings,
                         replayer::WarnOfNoEffect(shared.first.graph, shared.options));
  return format == OutputFormat::kJson ? Json(lines, warnings) : SharedJobsText(lines, warnings);
}

}  // namespace prism::launch
