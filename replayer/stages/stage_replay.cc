#include "replayer/stages/stage_replay.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "replayer/stages/stage_run.h"

namespace prism::replayer {

class StageEvaluator::Impl {
 public:
  Impl(const graph::JobProgram& job, StagePlan plan, bool detailed)
      : job_(job),
        plan_(std::move(plan)),
        model_(job, plan_),
        run_(plan_, model_, detailed),
        detailed_(detailed) {}

  Result<StageReplayResult> Evaluate(const graph::ClusterSpec& cluster,
                                     const StageReplayOptions& options) {
    if (options.iterations < 1) {
      return InvalidArgument(fmt::format("{} iterations: at least 1", options.iterations));
    }
    PRISM_RETURN_IF_ERROR(model_.Bind(cluster, {options.compute_scale, options.comm_scale}));
    if (!run_.Run(options.iterations)) {
      return RunFailed("the pipeline stages wait for each other in a circle");
    }
    StageReplayResult result;
    result.uneven = model_.uneven();
    result.skipped_rounds = run_.skipped_rounds();
    for (size_t stage = 0; stage < plan_.stages.size(); ++stage) {
      result.stage_ns.push_back(run_.IterationNs(stage));
      result.iteration_ns = std::max(result.iteration_ns, result.stage_ns.back());
      if (detailed_) {
        result.stages.push_back(run_.Times(stage));
      }
    }
    return result;
  }

 private:
  const graph::JobProgram& job_;
  StagePlan plan_;
  StageCostModel model_;
  StageRun run_;
  bool detailed_;
};

StageEvaluator::StageEvaluator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
}

StageEvaluator::StageEvaluator(StageEvaluator&&) noexcept = default;
StageEvaluator& StageEvaluator::operator=(StageEvaluator&&) noexcept = default;
StageEvaluator::~StageEvaluator() = default;

Result<StageEvaluator> StageEvaluator::Create(const graph::JobProgram& job, bool detailed) {
  PRISM_RETURN_IF_ERROR(graph::CheckGroups(job.job.parallel, job.style.shard_size));
  PRISM_ASSIGN_OR_RETURN(StagePlan plan, MakeStagePlan(job, /*fold=*/!detailed));
  return StageEvaluator(std::make_unique<Impl>(job, std::move(plan), detailed));
}

Result<StageReplayResult> StageEvaluator::Evaluate(const graph::ClusterSpec& cluster,
                                                   const StageReplayOptions& options) {
  return impl_->Evaluate(cluster, options);
}

}  // namespace prism::replayer
