#include "launch/plan/shortened_job.h"

#include <optional>
#include <utility>
#include <vector>

#include "graph/program/phrased_job.h"
#include "replayer/cost/congestion.h"
#include "replayer/stages/phrase_replay.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// Numbers of micro-batches to try, each smaller than the job's by whole rounds. A loop needs, in
// every stage, a round with an equal one on both sides; the first micro-batches fill the pipeline,
// and the passes of the first and the last one differ from the others. For most schedules the first
// length suffices; those that defer weight gradients settle later.
std::vector<int64_t> LengthsOf(const graph::JobSpec& job) {
  const int64_t pp = job.parallel.pp;
  const int64_t round = slicer::MicrobatchesOfRound(job.parallel);
  std::vector<int64_t> lengths = {pp + 4, 3 * pp + 8};
  if (round > 1) {
    lengths = {6 * pp, 9 * pp};
  }
  std::erase_if(lengths, [&](int64_t length) {
    return length >= job.microbatches() || (job.microbatches() - length) % round != 0;
  });
  return lengths;
}

Result<JobReplay> WholeOn(const graph::JobProgram& program,
                          const graph::ClusterSpec& cluster,
                          const std::optional<graph::ClusterSpec>& stalled) {
  PRISM_ASSIGN_OR_RETURN(replayer::StageEvaluator stages,
                         replayer::StageEvaluator::Create(program));
  JobReplay replay;
  PRISM_ASSIGN_OR_RETURN(replay.result, stages.Evaluate(cluster, {}));
  if (stalled.has_value()) {
    PRISM_ASSIGN_OR_RETURN(replay.stalled, stages.Evaluate(*stalled, {}));
  }
  return replay;
}

class Replayer {
 public:
  Replayer(const graph::JobSpec& job,
           const graph::TrainingStyle& style,
           const graph::ClusterSpec& cluster,
           const std::optional<graph::ClusterSpec>& stalled,
           PlanCache* cache)
      : job_(job), style_(style), cluster_(cluster), stalled_(stalled), cache_(cache) {}

  Result<JobReplay> Run() const {
    for (const int64_t microbatches : LengthsOf(job_)) {
      graph::JobSpec job = job_;
      job.global_batch_size = microbatches * job.micro_batch_size * job.parallel.dp;
      const int64_t more_rounds =
          (job_.microbatches() - microbatches) / slicer::MicrobatchesOfRound(job_.parallel);
      PRISM_ASSIGN_OR_RETURN(std::optional<JobReplay> found, ByPhrases(job, more_rounds));
      if (found.has_value()) {
        return *std::move(found);
      }
    }
    PRISM_ASSIGN_OR_RETURN(std::optional<JobReplay> whole, ByPhrases(job_, 0));
    return whole.has_value() ? *std::move(whole) : OpByOp();
  }

 private:
  // Null if the job cannot be run by phrases, or its rounds cannot be extrapolated.
  Result<std::optional<JobReplay>> ByPhrases(const graph::JobSpec& job, int64_t more_rounds) const {
    PlanCache::Entry& cache = cache_->For(job, style_);
    PRISM_ASSIGN_OR_RETURN(const graph::PhrasedJob phrased,
                           cache.synthesizer.Run(job, style_, slicer::Markers::kNone));
    replayer::PhraseReplayOptions options;
    options.more_rounds = more_rounds;
    std::optional<JobReplay> replay;
    PRISM_ASSIGN_OR_RETURN(const std::optional<replayer::StageReplayResult> result,
                           replayer::PhraseReplay(phrased, cluster_, options, &cache.library));
    if (!result.has_value()) {
      return replay;
    }
    std::optional<replayer::StageReplayResult> stalled;
    if (stalled_.has_value()) {
      PRISM_ASSIGN_OR_RETURN(stalled,
                             replayer::PhraseReplay(phrased, *stalled_, options, &cache.library));
      if (!stalled.has_value()) {
        return replay;
      }
    }
    replay = {*result, std::move(stalled), more_rounds > 0, true};
    return replay;
  }

  Result<JobReplay> OpByOp() const {
    PRISM_ASSIGN_OR_RETURN(const graph::JobProgram program,
                           slicer::Synthesize(job_, style_, slicer::Markers::kNone));
    return WholeOn(program, cluster_, stalled_);
  }

  const graph::JobSpec& job_;
  const graph::TrainingStyle& style_;
  const graph::ClusterSpec& cluster_;
  const std::optional<graph::ClusterSpec>& stalled_;
  PlanCache* cache_;
};

Result<JobReplay> Replay(const graph::JobSpec& job,
                         const graph::TrainingStyle& style,
                         const graph::ClusterSpec& cluster,
                         const std::optional<graph::ClusterSpec>& stalled,
                         PlanCache* cache) {
  Result<JobReplay> replay = Replayer(job, style, cluster, stalled, cache).Run();
  cache->CountReplay(replay.ok() && replay->by_phrases);
  return replay;
}

}  // namespace

Result<JobReplay> ReplayJob(const graph::JobSpec& job,
                            const graph::TrainingStyle& style,
                            const graph::ClusterSpec& cluster,
                            bool stalls,
                            PlanCache* cache) {
  const std::optional<graph::ClusterSpec> stalled =
      stalls ? replayer::Stalled(cluster, job) : std::nullopt;
  // Clusters have many parameters to copy.
  return replayer::FindsCongestion(cluster, job)
             ? Replay(job, style, replayer::WithCongestion(cluster, job), stalled, cache)
             : Replay(job, style, cluster, stalled, cache);
}

Result<JobReplay> ReplayJobAlone(const graph::JobSpec& job,
                                 const graph::TrainingStyle& style,
                                 const graph::ClusterSpec& cluster) {
  PlanCache cache;
  return Replay(job, style, cluster, std::nullopt, &cache);
}

Result<JobReplay> ReplayWhole(const graph::JobProgram& program,
                              const graph::ClusterSpec& cluster,
                              bool stalls) {
  std::optional<graph::ClusterSpec> stalled;
  if (stalls) {
    stalled = replayer::Stalled(cluster, program.job);
  }
  return WholeOn(program, replayer::WithCongestion(cluster, program.job), stalled);
}

}  // namespace prism::launch
