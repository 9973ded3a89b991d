// The iteration time of a job from its phrases: the result of StageEvaluator without a breakdown,
// many times faster, for jobs that PhraseRun can run.
#pragma once

#include <vector>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/phrased_job.h"
#include "replayer/stages/stage_plan.h"
#include "replayer/stages/stage_replay.h"

namespace prism::replayer {

class PhraseEvaluator {
 public:
  // `job` outlives the evaluator.
  static Result<PhraseEvaluator> Create(const graph::PhrasedJob& job);

  // `known` false: this job takes a StageEvaluator, or more rounds cannot be told from it. Scales
  // are 1.
  [[nodiscard]] Result<StageReplayResult> Evaluate(const graph::ClusterSpec& cluster,
                                                   const StageReplayOptions& options) const;

 private:
  PhraseEvaluator(const graph::PhrasedJob& job, StagePlan plan);

  const graph::PhrasedJob* job_;
  StagePlan plan_;
  std::vector<BlockStreams> streams_;
  StreamSet posting_ = 0;  // streams with messages that nothing of their stage waits for
};

}  // namespace prism::replayer
