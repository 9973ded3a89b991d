// The iteration time of a job on a cluster, including what no op of its graph shows: host time once
// per iteration and for experts, and the interval that parameters, repeats and assumptions leave.
#pragma once

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "replayer/stages/stage_replay.h"

namespace prism::launch {

// The style with the host time of a mixture of experts filled in; unchanged for other models.
// `parameters`: those of the cluster, with the framework's host costs.
graph::TrainingStyle WithHostTimes(const graph::JobSpec& job,
                                   graph::TrainingStyle style,
                                   const graph::ParameterTable& parameters);

// The time of an iteration, and its time if transfers that may stall do stall.
struct JobTime {
  double seconds = 0;
  double stalled_s = 0;  // at least `seconds` (replayer/cost/congestion.h)
  bool uneven = false;   // StageReplayResult names communicators that ranks of a stage do not share
};

// What is timed: `job` and `style` belong to the graph that the evaluator holds.
struct TimedJob {
  const graph::JobSpec& job;
  const graph::TrainingStyle& style;
};

// Seconds of an iteration of `iteration_ns`, including host time outside ops. The host spends that
// on trained parameters (optimizer, norm, buckets), so frozen weights leave almost none, as three
// tables of adapter fine-tuning show.
double SecondsOfIteration(DurationNs iteration_ns,
                          const graph::TrainingStyle& style,
                          const graph::ParameterTable& parameters);

// On the cluster as the job finds it; stalled_s equals seconds.
Result<JobTime> TimeOf(replayer::StageEvaluator& evaluator,
                       const TimedJob& timed,
                       const graph::ClusterSpec& cluster);

// The same with stalled_s; two evaluations where transfers may stall.
Result<JobTime> TimeWithStalls(replayer::StageEvaluator& evaluator,
                               const TimedJob& timed,
                               const graph::ClusterSpec& cluster);

struct TimeInterval {
  double low_s = 0;
  double high_s = 0;
};

// Combines, as if independent, how far runs of this kind are above and below their predictions
// (spread.*, which experiments/fit/intervals.py sets) and what was assumed about this one.
TimeInterval IntervalOf(const JobTime& time,
                        const graph::ParameterTable& parameters,
                        double assumption_spread);

}  // namespace prism::launch
