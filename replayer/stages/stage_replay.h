// The iteration time of a job from its JobProgram, with the semantics of replayer/engine.h and to
// the nanosecond the same, without a graph of all ranks: one evaluation for each pipeline stage.
//
// A StageEvaluator keeps what does not depend on parameters, for many evaluations of one job.
//
// All ranks of a stage are taken to be alike. Where their communicators lie on nodes in different
// ways they are not: then the slowest stands for all, and `uneven` says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/job_program.h"
#include "replayer/replay.h"

namespace prism::replayer {

struct StageReplayOptions {
  int32_t iterations = 3;    // as ReplayOptions; those like the one before are not run
  double compute_scale = 1;  // likewise
  double comm_scale = 1;     // likewise
};

struct StageReplayResult {
  DurationNs iteration_ns = 0;       // of the last iteration, of the slowest stage
  std::vector<DurationNs> stage_ns;  // likewise, by stage
  std::vector<RankTimes> stages;     // by stage; only from a detailed evaluator
  std::vector<std::string> uneven;   // communicators that the ranks of a stage do not share in kind
};

class StageEvaluator {
 public:
  // `job` outlives the evaluator. `detailed`: also tells how each stage spends its time, which
  // takes one step an op instead of one a block.
  static Result<StageEvaluator> Create(const graph::JobProgram& job, bool detailed = false);
  StageEvaluator(StageEvaluator&&) noexcept;
  StageEvaluator& operator=(StageEvaluator&&) noexcept;
  ~StageEvaluator();

  Result<StageReplayResult> Evaluate(const graph::ClusterSpec& cluster,
                                     const StageReplayOptions& options);

 private:
  class Impl;
  explicit StageEvaluator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace prism::replayer
