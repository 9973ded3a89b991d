#include "replayer/what_matters.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "graph/base/parallel.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"

namespace prism::replayer {
namespace {

constexpr int64_t kCommunicatorsTried = 16;

// Drops the parts that are not tried; returns how many.
int64_t LeaveOut(size_t most, std::vector<JobPart>* parts) {
  const size_t before = parts->size();
  int64_t communicators = 0;
  std::erase_if(*parts, [&](const JobPart& part) {
    return part.kind == PartKind::kCommunicator && ++communicators > kCommunicatorsTried;
  });
  parts->resize(std::min(parts->size(), most));
  return static_cast<int64_t>(before - parts->size());
}

// By speed-up: the first one equal to it. Equal ones take equally long.
std::vector<size_t> FirstAlike(const std::vector<JobPart>& parts,
                               const std::vector<std::shared_ptr<const Speedup>>& speedups) {
  std::vector<size_t> first;
  for (size_t i = 0; i < parts.size(); ++i) {
    size_t alike = 0;
    while (alike < i &&
           (parts[alike].busy_ns != parts[i].busy_ns || !(*speedups[alike] == *speedups[i]))) {
      ++alike;
    }
    first.push_back(alike);
  }
  return first;
}

}  // namespace

Result<WhatMatters> FindWhatMatters(const graph::Graph& graph,
                                    const ReplayOptions& given,
                                    size_t most) {
  ReplayOptions options = given;
  options.breakdown = false;
  options.traced.clear();
  options.threads = 1;
  PRISM_ASSIGN_OR_RETURN(const ReplayResult whole, Replay(graph, options));
  PRISM_ASSIGN_OR_RETURN(const JobParts job, JobParts::Of(graph, options));
  std::vector<JobPart> parts = job.All();
  WhatMatters matters;
  matters.iteration_ns = whole.steady_iteration_ns();
  matters.left_out = LeaveOut(most, &parts);
  std::vector<std::shared_ptr<const Speedup>> speedups(parts.size());
  ParallelFor(given.threads, std::ssize(parts), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    speedups[at] = std::make_shared<Speedup>(job.Faster(parts[at], kFasterFactor));
  });
  const std::vector<size_t> alike = FirstAlike(parts, speedups);
  std::vector<DurationNs> iterations(parts.size());
  std::vector<Status> failures(parts.size(), OkStatus());
  ParallelFor(given.threads, std::ssize(parts), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    if (alike[at] == at) {
      ReplayOptions faster = options;
      faster.speedup = speedups[at];
      const Result<ReplayResult> result = Replay(graph, faster);
      failures[at] = result.status();
      iterations[at] = result.ok() ? result->steady_iteration_ns() : 0;
    }
  });
  for (size_t i = 0; i < parts.size(); ++i) {
    PRISM_RETURN_IF_ERROR(failures[i]);
    const DurationNs saved = matters.iteration_ns - iterations[alike[i]];
    const double ideal = (1 - kFasterFactor) * static_cast<double>(parts[i].busy_ns);
    matters.parts.push_back(
        {parts[i], iterations[alike[i]], saved, static_cast<double>(saved) / ideal});
  }
  std::ranges::stable_sort(matters.parts, [](const FasterPart& a, const FasterPart& b) {
    return std::tie(b.saved_ns, a.part.name, a.part.kind) <
           std::tie(a.saved_ns, b.part.name, b.part.kind);
  });
  return matters;
}

}  // namespace prism::replayer
