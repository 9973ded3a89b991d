// The iteration time of a job on a cluster with what no op of its graph shows: host time once an
// iteration and of experts, and the interval that parameters, repeats and assumptions leave.
#pragma once

#include <optional>

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

// An iteration, and how long it takes where its transfers stall that need not.
struct JobTime {
  double seconds = 0;
  double stalled_s = 0;  // at least seconds (replayer/cost/congestion.h)
  bool uneven = false;   // StageReplayResult names communicators that ranks of a stage do not share
};

// What is timed: `job` and `style` have the graph that an evaluator holds.
struct TimedJob {
  const graph::JobSpec& job;
  const graph::TrainingStyle& style;
};

// Seconds of an iteration of `iteration_ns`, with what the host does outside of ops. It does that
// for the parameters that are trained (optimizer, norm, buckets): frozen weights leave next to
// none, as fine-tuning of adapters in three tables has it.
double SecondsOfIteration(DurationNs iteration_ns,
                          const graph::TrainingStyle& style,
                          const graph::ParameterTable& parameters);

// Of a replay, and of one where transfers stall if they may.
JobTime JobTimeOf(const replayer::StageReplayResult& result,
                  const std::optional<replayer::StageReplayResult>& stalled,
                  const graph::TrainingStyle& style,
                  const graph::ParameterTable& parameters);

// On the cluster as the job finds it; stalled_s is seconds.
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

// What runs of a kind take beyond and below their predictions (spread.*, which
// experiments/fit/intervals.py sets), and what was assumed of this one, as if independent.
TimeInterval IntervalOf(const JobTime& time,
                        const graph::ParameterTable& parameters,
                        double assumption_spread);

}  // namespace prism::launch
