#include "replayer/stages/phrase_replay.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "replayer/stages/phrase_compiler.h"
#include "replayer/stages/phrase_run.h"

namespace prism::replayer {
namespace {

// Stages of one kind whose communicators and messages are placed on nodes in the same way.
struct CompiledKind {
  uint32_t phrases = 0;   // kind in the job
  uint32_t topology = 0;  // kind in StageTopologies
  PhraseReach reach;
  std::unique_ptr<PhraseCompiler> compiler;
};

// Streams used by the phrases of a job.
struct UsedStreams {
  StreamSet posting = 0;
  uint32_t axes = 0;
};

UsedStreams StreamsOf(const graph::PhrasedJob& job, const BlockLibrary& library) {
  UsedStreams used;
  for (const graph::PhrasedKind& kind : job.kinds) {
    for (const std::vector<uint32_t>& phrase : kind.phrases) {
      for (const uint32_t call : phrase) {
        for (uint32_t p = library.plan().parts[call]; p < library.plan().parts[call + 1]; ++p) {
          used.posting |= library.streams()[p].posting;
          used.axes |= library.streams()[p].axes;
        }
      }
    }
  }
  return used;
}

// One evaluation on one cluster.
class Evaluation {
 public:
  Evaluation(const PhraseCompiler::Shared& shared, StageTopologies topologies)
      : shared_(shared), topologies_(std::move(topologies)) {
    for (const StageTopologies::ByAxis& kind : topologies_.kinds()) {
      numbers_.emplace_back();
      for (size_t axis = 0; axis < kind.size(); ++axis) {
        numbers_.back()[axis] = shared_.costs->NumberOf(kind[axis]);
      }
    }
  }

  // False if a stage begins with something other than an op on a stream.
  bool SetUp() {
    for (size_t s = 0; s < shared_.job->stages.size(); ++s) {
      PhraseRun::StageSetup setup;
      setup.compiler = CompilerOf(s);
      if (!FindFirst(s, &setup)) {
        return false;
      }
      setups_.push_back(setup);
    }
    return true;
  }

  std::optional<StageReplayResult> Run(int32_t iterations, const PhraseLoop* loop) {
    PhraseRun run(*shared_.job, std::move(setups_), shared_.posting);
    if (!run.Run(iterations, loop)) {
      return std::nullopt;
    }
    StageReplayResult result;
    result.uneven = topologies_.uneven();
    for (size_t stage = 0; stage < shared_.job->stages.size(); ++stage) {
      result.stage_ns.push_back(run.IterationNs(stage));
      result.iteration_ns = std::max(result.iteration_ns, result.stage_ns.back());
    }
    return result;
  }

 private:
  PhraseCompiler* CompilerOf(size_t s) {
    const uint32_t phrases = shared_.job->stages[s].kind;
    const uint32_t topology = topologies_.KindOf(s);
    const PhraseReach reach = ReachOf(static_cast<int32_t>(s));
    for (const CompiledKind& known : kinds_) {
      if (known.phrases == phrases && known.topology == topology && known.reach == reach) {
        return known.compiler.get();
      }
    }
    kinds_.push_back(
        {phrases, topology, reach,
         std::make_unique<PhraseCompiler>(shared_, phrases, numbers_[topology], reach)});
    return kinds_.back().compiler.get();
  }

  PhraseReach ReachOf(int32_t stage) {
    const int32_t stages = shared_.job->job.parallel.pp;
    const bool ring = stages > 1 && shared_.job->job.parallel.vpp > 1;
    PhraseReach reach;
    if (ring || stage > 0) {
      reach.previous_on_node = topologies_.OnNode((stage + stages - 1) % stages, stage);
    }
    if (ring || stage + 1 < stages) {
      reach.next_on_node = topologies_.OnNode(stage, (stage + 1) % stages);
    }
    return reach;
  }

  bool FindFirst(size_t s, PhraseRun::StageSetup* setup) const {
    const graph::PhrasedStage& stage = shared_.job->stages[s];
    const StagePlan& plan = shared_.library->plan();
    for (const uint32_t step : stage.steps) {
      for (const uint32_t call : shared_.job->kinds[stage.kind].phrases[step]) {
        for (uint32_t p = plan.parts[call]; p < plan.parts[call + 1]; ++p) {
          const LoweredBlock& block = plan.blocks[p];
          if (block.ops.empty()) {
            setup->first_host_ns += shared_.costs->SpanNs(block.rest_span);
            continue;
          }
          setup->first_host_ns += shared_.costs->SpanNs(block.ops.front().span);
          setup->first_stream = block.ops.front().stream;
          return block.ops.front().kind != StageOpKind::kHostSync;
        }
      }
    }
    return false;
  }

  PhraseCompiler::Shared shared_;
  StageTopologies topologies_;
  std::vector<LibraryCosts::Topologies> numbers_;  // by kind of topologies_
  std::vector<CompiledKind> kinds_;
  std::vector<PhraseRun::StageSetup> setups_;
};

}  // namespace

Result<std::optional<StageReplayResult>> PhraseReplay(const graph::PhrasedJob& job,
                                                      const graph::ClusterSpec& cluster,
                                                      const PhraseReplayOptions& options,
                                                      BlockLibrary* library) {
  const std::optional<StageReplayResult> unknown;
  const std::optional<PhraseLoop> loop = FindPhraseLoop(job, options.more_rounds);
  if (options.more_rounds > 0 && !loop.has_value()) {
    return unknown;
  }
  PRISM_RETURN_IF_ERROR(graph::CheckGroups(job.job.parallel, job.style.shard_size));
  PRISM_RETURN_IF_ERROR(library->Extend(*job.program));
  if (library->plan().kernel_streams.size() > kMaxKernelStreams) {
    return unknown;
  }
  PhraseCompiler::Shared shared;
  shared.job = &job;
  shared.library = library;
  PRISM_ASSIGN_OR_RETURN(shared.costs, library->CostsOn(cluster, *job.program));
  const UsedStreams used = StreamsOf(job, *library);
  shared.posting = used.posting;
  Evaluation evaluation(shared, library->TopologiesOf(job.job.parallel, job.style.shard_size,
                                                      cluster.gpus_per_node, used.axes));
  if (!evaluation.SetUp()) {
    return unknown;
  }
  return evaluation.Run(options.iterations, loop.has_value() ? &*loop : nullptr);
}

}  // namespace prism::replayer
