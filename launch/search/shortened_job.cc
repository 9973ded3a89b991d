#include "launch/search/shortened_job.h"

#include <optional>
#include <utility>
#include <vector>

#include "graph/phrased_job.h"
#include "replayer/cost/congestion.h"
#include "replayer/stages/phrase_replay.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// Lengths to try, each with the same part of a round as the job. A loop needs a round in every
// stage with one alike on both sides; the first micro-batches fill the pipeline, and the passes of
// the first and the last one are not like those of others. Most schedules have that in the first
// length; those that put off weight gradients settle later.
std::vector<int64_t> LengthsOf(const graph::JobSpec& job) {
  const int64_t pp = job.parallel.pp;
  if (slicer::MicrobatchesOfRound(job.parallel) > 1) {
    return {6 * pp, 9 * pp};
  }
  return {pp + 4, 3 * pp + 8};
}

class Replayer {
 public:
  Replayer(const graph::JobSpec& job,
           const graph::TrainingStyle& style,
           const graph::ClusterSpec& cluster,
           bool stalls,
           PlanCache* cache)
      : job_(job), style_(style), cache_(cache), cluster_(replayer::WithCongestion(cluster, job)) {
    if (stalls) {
      stalled_ = replayer::Stalled(cluster, job);
    }
  }

  Result<JobReplay> Run() const {
    for (const int64_t microbatches : LengthsOf(job_)) {
      if (microbatches >= job_.microbatches()) {
        break;
      }
      PRISM_ASSIGN_OR_RETURN(JobReplay found, Try(microbatches));
      if (IsKnown(found)) {
        return found;
      }
    }
    return Replay(job_, {});
  }

 private:
  Result<JobReplay> Try(int64_t microbatches) const {
    graph::JobSpec job = job_;
    job.global_batch_size = microbatches * job.micro_batch_size * job.parallel.dp;
    replayer::StageReplayOptions options;
    options.more_rounds =
        (job_.microbatches() - microbatches) / slicer::MicrobatchesOfRound(job_.parallel);
    return Replay(job, options);
  }

  // By phrases where they can be run so, else op by op. Not known where more rounds cannot be
  // told from this job.
  Result<JobReplay> Replay(const graph::JobSpec& job,
                           const replayer::StageReplayOptions& options) const {
    PlanCache::Entry& cache = cache_->For(job, style_);
    PRISM_ASSIGN_OR_RETURN(const graph::PhrasedJob phrased,
                           cache.synthesizer.Run(job, style_, slicer::Markers::kNone));
    PRISM_ASSIGN_OR_RETURN(JobReplay replay, OnClusters([&](const graph::ClusterSpec& cluster) {
                             return replayer::PhraseReplay(phrased, cluster, options,
                                                           &cache.library);
                           }));
    replay.by_phrases = IsKnown(replay);
    if (!replay.by_phrases) {
      const graph::JobProgram program = graph::WriteOut(phrased);
      PRISM_ASSIGN_OR_RETURN(replayer::StageEvaluator stages,
                             replayer::StageEvaluator::Create(program));
      PRISM_ASSIGN_OR_RETURN(replay, OnClusters([&](const graph::ClusterSpec& cluster) {
                               return stages.Evaluate(cluster, options);
                             }));
    }
    replay.shortened = options.more_rounds > 0;
    return replay;
  }

  static bool IsKnown(const JobReplay& replay) {
    return replay.result.known && (!replay.stalled.has_value() || replay.stalled->known);
  }

  template <typename Evaluate>
  Result<JobReplay> OnClusters(Evaluate evaluate) const {
    JobReplay replay;
    PRISM_ASSIGN_OR_RETURN(replay.result, evaluate(cluster_));
    if (stalled_.has_value()) {
      PRISM_ASSIGN_OR_RETURN(replay.stalled, evaluate(*stalled_));
    }
    return replay;
  }

  const graph::JobSpec& job_;
  const graph::TrainingStyle& style_;
  PlanCache* cache_;
  graph::ClusterSpec cluster_;
  std::optional<graph::ClusterSpec> stalled_;
};

}  // namespace

Result<JobReplay> ReplayJob(const graph::JobSpec& job,
                            const graph::TrainingStyle& style,
                            const graph::ClusterSpec& cluster,
                            bool stalls,
                            PlanCache* cache) {
  return Replayer(job, style, cluster, stalls, cache).Run();
}

}  // namespace prism::launch
