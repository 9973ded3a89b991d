// The iteration time of a job on a cluster with what no op of its graph shows: host time once an
// iteration and of experts, and the interval that parameters, repeats and assumptions leave.
#pragma once

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/job.h"
#include "graph/training_style.h"
#include "replayer/stages/stage_replay.h"

namespace prism::launch {

// The style with the host time of a mixture of experts filled in; others as they are. `parameters`:
// of the cluster with the framework's host costs.
graph::TrainingStyle WithHostTimes(const graph::JobSpec& job,
                                   graph::TrainingStyle style,
                                   const graph::ParameterTable& parameters);

// An iteration, and which part of it compute makes up.
struct JobTime {
  double seconds = 0;
  double compute_share = 1;
  bool uneven = false;  // StageReplayResult names communicators that ranks of a stage do not share
};

// Seconds of an iteration of `iteration_ns`, with what the host does outside of ops.
double SecondsOfIteration(DurationNs iteration_ns, const graph::ParameterTable& parameters);

Result<JobTime> TimeOf(replayer::StageEvaluator& evaluator,
                       const graph::ClusterSpec& cluster,
                       const replayer::StageReplayOptions& options);

// The same with the share of compute; two evaluations.
Result<JobTime> TimeWithShares(replayer::StageEvaluator& evaluator,
                               const graph::ClusterSpec& cluster);

// The part of an iteration that compute makes up, from its time and that with compute slowed by
// kShareStep: a time is the sum of what compute, transfers and the host give to it.
inline constexpr double kShareStep = 1.02;
double ComputeShare(double seconds, double slowed_seconds);

struct TimeInterval {
  double low_s = 0;
  double high_s = 0;
};

// Half widths add up as if independent: spread.compute and spread.comm by their shares of the time,
// spread.noise, and what was assumed.
TimeInterval IntervalOf(const JobTime& time,
                        const graph::ParameterTable& parameters,
                        double assumption_spread);

}  // namespace prism::launch
