// The iteration time of a job from its JobProgram, with the semantics of replayer/engine/engine.h
// and equal to it to the nanosecond, without a graph of all ranks: one evaluation per pipeline
// stage.
//
// A StageEvaluator keeps what does not depend on parameters, for many evaluations of one job.
//
// All ranks of a stage are assumed to be equal. If their communicators are placed on nodes in
// different ways they are not: then the slowest represents all, and `uneven` says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/program/job_program.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

struct StageReplayOptions {
  int32_t iterations = 3;    // as ReplayOptions; once steady, further ones are not run
  double compute_scale = 1;  // the same
  double comm_scale = 1;     // the same
};

struct StageReplayResult {
  DurationNs iteration_ns = 0;       // of the last iteration, of the slowest stage
  std::vector<DurationNs> stage_ns;  // the same, by stage
  std::vector<RankTimes> stages;     // by stage; only from a detailed evaluator
  std::vector<std::string> uneven;   // communicators whose kind differs among the ranks of a stage
  int64_t skipped_rounds = 0;        // of the last iteration: extrapolated (stage_run.h)
};

class StageEvaluator {
 public:
  // `job` outlives the evaluator. `detailed`: also reports how each stage spends its time, which
  // takes one step per op instead of one per block.
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
