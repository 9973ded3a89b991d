// Replays a job through one with fewer micro-batches, if that gives the same times
// (replayer/stages/phrase_run.h): schedules repeat themselves in their steady part.
#pragma once

#include <optional>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "graph/program/job_program.h"
#include "launch/plan/plan_cache.h"
#include "replayer/stages/stage_replay.h"

namespace prism::launch {

struct JobReplay {
  replayer::StageReplayResult result;
  std::optional<replayer::StageReplayResult> stalled;  // if transfers may stall
  bool shortened = false;                              // false: every micro-batch was replayed
  bool by_phrases = false;                             // false: op by op
};

// On the cluster as the job finds it (replayer/cost/congestion.h). `stalls`: also with stalled
// transfers. The result does not depend on the cache.
Result<JobReplay> ReplayJob(const graph::JobSpec& job,
                            const graph::TrainingStyle& style,
                            const graph::ClusterSpec& cluster,
                            bool stalls,
                            PlanCache* cache);

// The same without the congestion that the job causes, as a recorded graph is replayed.
Result<JobReplay> ReplayJobAlone(const graph::JobSpec& job,
                                 const graph::TrainingStyle& style,
                                 const graph::ClusterSpec& cluster);

// ReplayJob for a job that is written out, with every micro-batch.
Result<JobReplay> ReplayWhole(const graph::JobProgram& program,
                              const graph::ClusterSpec& cluster,
                              bool stalls);

}  // namespace prism::launch
