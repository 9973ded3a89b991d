#include "launch/plan/job_time.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/base/time.h"
#include "replayer/cost/congestion.h"

namespace prism::launch {
namespace {

// glibc 2.35 has another hypot, which differs in errno; programs run on an older one, too.
__asm__(".symver hypot, hypot@GLIBC_2.2.5");

// From a replay, and from one in which transfers stall where they may.
JobTime JobTimeOf(const replayer::StageReplayResult& result,
                  const std::optional<replayer::StageReplayResult>& stalled,
                  const graph::TrainingStyle& style,
                  const graph::ParameterTable& parameters) {
  const double seconds = SecondsOfIteration(result.iteration_ns, style, parameters);
  const double stalled_s =
      stalled ? SecondsOfIteration(stalled->iteration_ns, style, parameters) : seconds;
  return JobTime{seconds, std::max(seconds, stalled_s), !result.uneven.empty()};
}

}  // namespace

graph::TrainingStyle WithHostTimes(const graph::JobSpec& job,
                                   graph::TrainingStyle style,
                                   const graph::ParameterTable& parameters) {
  if (job.model.moe.experts == 0) {
    return style;
  }
  const double parts = style.moe_overlap ? parameters.Value("host.moe_overlap_factor") : 1;
  const double router_share = parameters.Value("host.moe_router_share");
  const double pass = parts * parameters.Value("host.moe_pass_ns");
  const auto held = static_cast<double>(job.model.moe.experts / job.parallel.ep);
  const double experts =
      (1 - router_share) * pass + parts * held * parameters.Value("host.expert_ns");
  style.moe_router_host_ns = std::llround(router_share * pass);
  style.moe_expert_host_ns = std::llround(experts);
  return style;
}

double SecondsOfIteration(DurationNs iteration_ns,
                          const graph::TrainingStyle& style,
                          const graph::ParameterTable& parameters) {
  const double seconds = SecondsFromNs(iteration_ns);
  const double host = style.frozen_weights ? 0 : parameters.Value("host.iteration_ns") * 1e-9;
  // The host launches a graph of the whole iteration and waits for nothing (graph::HostCost), so
  // that what it does once an iteration is beside the GPU's work.
  return style.host_cost == graph::HostCost::kGraph ? std::max(seconds, host) : seconds + host;
}

Result<JobTime> TimeOf(replayer::StageEvaluator& evaluator,
                       const TimedJob& timed,
                       const graph::ClusterSpec& cluster) {
  PRISM_ASSIGN_OR_RETURN(const replayer::StageReplayResult result,
                         evaluator.Evaluate(replayer::WithCongestion(cluster, timed.job), {}));
  return JobTimeOf(result, std::nullopt, timed.style, cluster.parameters);
}

Result<JobTime> TimeWithStalls(replayer::StageEvaluator& evaluator,
                               const TimedJob& timed,
                               const graph::ClusterSpec& cluster) {
  PRISM_ASSIGN_OR_RETURN(const replayer::StageReplayResult result,
                         evaluator.Evaluate(replayer::WithCongestion(cluster, timed.job), {}));
  std::optional<replayer::StageReplayResult> stalled;
  if (const std::optional<graph::ClusterSpec> slow = replayer::Stalled(cluster, timed.job)) {
    PRISM_ASSIGN_OR_RETURN(stalled, evaluator.Evaluate(*slow, {}));
  }
  return JobTimeOf(result, stalled, timed.style, cluster.parameters);
}

TimeInterval IntervalOf(const JobTime& time,
                        const graph::ParameterTable& parameters,
                        double assumption_spread) {
  const double assumed = parameters.Value("spread.assumptions") * assumption_spread;
  const double below = std::hypot(parameters.Value("spread.below"), assumed);
  const double above = std::hypot(parameters.Value("spread.above"), assumed);
  return {time.seconds / (1 + below), time.stalled_s * (1 + above)};
}

}  // namespace prism::launch
