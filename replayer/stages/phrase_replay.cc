#include "replayer/stages/phrase_replay.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "replayer/stages/phrase_compiler.h"
#include "replayer/stages/phrase_run.h"

namespace prism::replayer {
namespace {

// Stages of one kind with communicators and messages that lie on nodes in the same way.
struct CompiledKind {
  uint32_t phrases = 0;   // kind in the job
  uint32_t topology = 0;  // kind in the cost model
  PhraseReach reach;
  std::unique_ptr<PhraseCompiler> compiler;
};

// One evaluation on one cluster.
class Evaluation {
 public:
  Evaluation(const PhraseCompiler::Shared& shared,
             StageCostModel* model,
             const graph::ClusterSpec& cluster)
      : shared_(shared), model_(model), cost_(cluster) {
    shared_.cost = &cost_;
  }

  // False where a stage begins with something else than an op on a stream.
  bool SetUp() {
    const size_t stages = shared_.job->stages.size();
    for (size_t s = 0; s < stages; ++s) {
      PhraseRun::StageSetup setup;
      setup.compiler = CompilerOf(s);
      if (!FindFirst(s, &setup)) {
        return false;
      }
      setups_.push_back(setup);
    }
    return true;
  }

  StageReplayResult Run(const StageReplayOptions& options, const PhraseLoop* loop) {
    StageReplayResult result;
    PhraseRun run(*shared_.job, std::move(setups_), shared_.posting);
    result.known = run.Run(options.iterations, loop);
    result.uneven = model_->uneven();
    for (size_t stage = 0; stage < shared_.job->stages.size(); ++stage) {
      result.stage_ns.push_back(run.IterationNs(stage));
      result.iteration_ns = std::max(result.iteration_ns, result.stage_ns.back());
    }
    return result;
  }

 private:
  PhraseCompiler* CompilerOf(size_t s) {
    CompiledKind kind;
    kind.phrases = shared_.job->stages[s].kind;
    kind.topology = model_->KindOf(s);
    kind.reach = ReachOf(static_cast<int32_t>(s));
    const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const CompiledKind& known) {
      return std::tie(known.phrases, known.topology) == std::tie(kind.phrases, kind.topology) &&
             known.reach == kind.reach;
    });
    if (found != kinds_.end()) {
      return found->compiler.get();
    }
    kind.compiler = std::make_unique<PhraseCompiler>(
        shared_, kind.phrases, model_->DurationsOf(kind.topology), kind.reach);
    kinds_.push_back(std::move(kind));
    return kinds_.back().compiler.get();
  }

  PhraseReach ReachOf(int32_t stage) {
    const int32_t stages = shared_.job->program.job.parallel.pp;
    if (stages < 2) {
      return {};
    }
    const int32_t previous = (stage + stages - 1) % stages;
    const int32_t next = (stage + 1) % stages;
    return {model_->OnNode(previous, stage), model_->OnNode(stage, next)};
  }

  bool FindFirst(size_t s, PhraseRun::StageSetup* setup) const {
    const graph::PhrasedStage& stage = shared_.job->stages[s];
    const std::vector<DurationNs>& span_ns = model_->costs().span_ns;
    for (const uint32_t step : stage.steps) {
      for (const uint32_t call : shared_.job->kinds[stage.kind].phrases[step]) {
        for (uint32_t p = shared_.plan->parts[call]; p < shared_.plan->parts[call + 1]; ++p) {
          const LoweredBlock& block = shared_.plan->blocks[p];
          if (block.ops.empty()) {
            setup->first_host_ns += span_ns[block.rest_span];
            continue;
          }
          setup->first_host_ns += span_ns[block.ops.front().span];
          setup->first_stream = block.ops.front().stream;
          return block.ops.front().kind != StageOpKind::kHostSync;
        }
      }
    }
    return false;
  }

  PhraseCompiler::Shared shared_;
  StageCostModel* model_;
  CollectiveCost cost_;
  std::vector<CompiledKind> kinds_;
  std::vector<PhraseRun::StageSetup> setups_;
};

}  // namespace

PhraseEvaluator::PhraseEvaluator(const graph::PhrasedJob& job, StagePlan plan)
    : job_(&job),
      plan_(std::move(plan)),
      streams_(StreamsOfBlocks(plan_, job.program.job.parallel)) {
  for (const LoweredBlock& block : plan_.blocks) {
    for (const StageOp& op : block.ops) {
      posting_ |= op.kind == StageOpKind::kPeerGroup && !block.blocking ? Bit(op.stream) : 0;
    }
  }
}

Result<PhraseEvaluator> PhraseEvaluator::Create(const graph::PhrasedJob& job) {
  PRISM_RETURN_IF_ERROR(graph::CheckGroups(job.program.job.parallel, job.program.style.shard_size));
  PRISM_ASSIGN_OR_RETURN(StagePlan plan, LowerBlocks(job.program));
  return PhraseEvaluator(job, std::move(plan));
}

Result<StageReplayResult> PhraseEvaluator::Evaluate(const graph::ClusterSpec& cluster,
                                                    const StageReplayOptions& options) const {
  StageReplayResult unknown;
  unknown.known = false;
  std::optional<PhraseLoop> loop;
  if (options.more_rounds > 0) {
    loop = FindPhraseLoop(*job_, 1 + options.more_rounds);
    if (!loop.has_value()) {
      return unknown;
    }
  }
  StageCostModel model(job_->program, plan_);
  PRISM_RETURN_IF_ERROR(model.Bind(cluster, {}));
  PhraseCompiler::Shared shared;
  shared.job = job_;
  shared.plan = &plan_;
  shared.streams = &streams_;
  shared.posting = posting_;
  Evaluation evaluation(shared, &model, cluster);
  if (!evaluation.SetUp()) {
    return unknown;
  }
  return evaluation.Run(options, loop.has_value() ? &*loop : nullptr);
}

}  // namespace prism::replayer
