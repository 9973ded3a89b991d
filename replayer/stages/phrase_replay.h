// The iteration time of a job from its phrases: the result of StageEvaluator without a breakdown,
// many times faster, for jobs that PhraseRun supports.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/program/phrased_job.h"
#include "replayer/stages/block_library.h"
#include "replayer/stages/stage_replay.h"

namespace prism::replayer {

struct PhraseReplayOptions {
  int32_t iterations = 3;   // as ReplayOptions
  int64_t more_rounds = 0;  // as if the steady part had this many more rounds (PhraseLoop)
};

// Null if this job needs a StageEvaluator, or if the time of more rounds cannot be derived from it.
// `library`: one for jobs with this job's program, and like this one with several stages or with
// one.
Result<std::optional<StageReplayResult>> PhraseReplay(const graph::PhrasedJob& job,
                                                      const graph::ClusterSpec& cluster,
                                                      const PhraseReplayOptions& options,
                                                      BlockLibrary* library);

}  // namespace prism::replayer
