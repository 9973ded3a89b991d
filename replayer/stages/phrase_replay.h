// The iteration time of a job from its phrases: the result of StageEvaluator without a breakdown,
// many times faster, for jobs that PhraseRun can run.
#pragma once

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/phrased_job.h"
#include "replayer/stages/block_library.h"
#include "replayer/stages/stage_replay.h"

namespace prism::replayer {

// `known` false: this job takes a StageEvaluator, or more rounds cannot be told from it. Scales are
// 1. `library`: for jobs of this job's program and with several stages, or one, as this.
Result<StageReplayResult> PhraseReplay(const graph::PhrasedJob& job,
                                       const graph::ClusterSpec& cluster,
                                       const StageReplayOptions& options,
                                       BlockLibrary* library);

}  // namespace prism::replayer
