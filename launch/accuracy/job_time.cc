#include "launch/accuracy/job_time.h"

#include <algorithm>
#include <cmath>

#include "graph/base/time.h"

namespace prism::launch {

graph::TrainingStyle WithHostTimes(const graph::JobSpec& job,
                                   graph::TrainingStyle style,
                                   const graph::ParameterTable& parameters) {
  constexpr double kRouterShare = 2.0 / 3;  // of what does not depend on the number of experts
  // Beside each other, passes of two micro-batches run as parts (attention, dispatch, experts,
  // combine), each with an autograd graph of its own: the host does everything about twice.
  constexpr double kInParts = 2;
  if (job.model.moe.experts == 0) {
    return style;
  }
  const double parts = style.moe_overlap ? kInParts : 1;
  const double pass = parts * parameters.Value("host.moe_pass_ns");
  const auto held = static_cast<double>(job.model.moe.experts / job.parallel.ep);
  const double experts =
      (1 - kRouterShare) * pass + parts * held * parameters.Value("host.expert_ns");
  style.moe_router_host_ns = std::llround(kRouterShare * pass);
  style.moe_expert_host_ns = std::llround(experts);
  return style;
}

double SecondsOfIteration(DurationNs iteration_ns, const graph::ParameterTable& parameters) {
  return SecondsFromNs(iteration_ns) + parameters.Value("host.iteration_ns") * 1e-9;
}

Result<JobTime> TimeOf(replayer::StageEvaluator& evaluator,
                       const graph::ClusterSpec& cluster,
                       const replayer::StageReplayOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const replayer::StageReplayResult result,
                         evaluator.Evaluate(cluster, options));
  return JobTime{SecondsOfIteration(result.iteration_ns, cluster.parameters), 1,
                 !result.uneven.empty()};
}

Result<JobTime> TimeWithShares(replayer::StageEvaluator& evaluator,
                               const graph::ClusterSpec& cluster) {
  PRISM_ASSIGN_OR_RETURN(JobTime time, TimeOf(evaluator, cluster, {}));
  replayer::StageReplayOptions slower;
  slower.compute_scale = kShareStep;
  PRISM_ASSIGN_OR_RETURN(const JobTime slowed, TimeOf(evaluator, cluster, slower));
  time.compute_share = ComputeShare(time.seconds, slowed.seconds);
  return time;
}

double ComputeShare(double seconds, double slowed_seconds) {
  return std::clamp((slowed_seconds / seconds - 1) / (kShareStep - 1), 0.0, 1.0);
}

TimeInterval IntervalOf(const JobTime& time,
                        const graph::ParameterTable& parameters,
                        double assumption_spread) {
  const double by_compute = time.compute_share * parameters.Value("spread.compute");
  const double by_comm = (1 - time.compute_share) * parameters.Value("spread.comm");
  const double noise = parameters.Value("spread.noise");
  const double width = std::sqrt(by_compute * by_compute + by_comm * by_comm + noise * noise +
                                 assumption_spread * assumption_spread);
  return {time.seconds / (1 + width), time.seconds * (1 + width)};
}

}  // namespace prism::launch
