#include "launch/search/shortened_job.h"

#include <vector>

#include "replayer/cost/congestion.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// A length to try: so many micro-batches, with windows of these many rounds.
struct Trial {
  int64_t microbatches = 0;
  std::vector<uint32_t> window_rounds;
};

// The rest of the micro-batches comes in whole windows of pp micro-batches. The pipeline's first
// micro-batches fill it and its rounds take some more to settle; most settle at once into rounds
// alike, and those whose messages go round the pipeline repeat themselves after pp rounds.
std::vector<Trial> TrialsOf(const graph::JobSpec& job) {
  const int64_t pp = job.parallel.pp;
  const int64_t rest = job.microbatches() % pp;
  if (slicer::MicrobatchesOfRound(job.parallel) > 1) {
    return {{8 * pp, {1}}, {12 * pp, {1}}};
  }
  const auto stages = static_cast<uint32_t>(pp);
  return {{2 * pp + (7 + pp) / pp * pp + rest, {1}}, {8 * pp + rest, {1, stages}}};
}

class Replayer {
 public:
  Replayer(const graph::JobSpec& job,
           const graph::TrainingStyle& style,
           const graph::ClusterSpec& cluster,
           bool stalls)
      : job_(job), style_(style), cluster_(replayer::WithCongestion(cluster, job)) {
    if (stalls) {
      stalled_ = replayer::Stalled(cluster, job);
    }
  }

  Result<JobReplay> Run() const {
    for (const Trial& trial : TrialsOf(job_)) {
      if (trial.microbatches >= job_.microbatches()) {
        break;
      }
      PRISM_ASSIGN_OR_RETURN(const std::optional<JobReplay> found, Try(trial));
      if (found.has_value()) {
        return *found;
      }
    }
    PRISM_ASSIGN_OR_RETURN(const graph::JobProgram program,
                           slicer::Synthesize(job_, style_, slicer::Markers::kNone));
    PRISM_ASSIGN_OR_RETURN(replayer::StageEvaluator evaluator,
                           replayer::StageEvaluator::Create(program));
    return Evaluate(evaluator, {});
  }

 private:
  Result<std::optional<JobReplay>> Try(const Trial& trial) const {
    graph::JobSpec job = job_;
    job.global_batch_size = trial.microbatches * job.micro_batch_size * job.parallel.dp;
    PRISM_ASSIGN_OR_RETURN(const graph::JobProgram program,
                           slicer::Synthesize(job, style_, slicer::Markers::kNone));
    PRISM_ASSIGN_OR_RETURN(replayer::StageEvaluator evaluator,
                           replayer::StageEvaluator::Create(program));
    const int64_t rounds =
        (job_.microbatches() - trial.microbatches) / slicer::MicrobatchesOfRound(job_.parallel);
    for (const uint32_t window : trial.window_rounds) {
      replayer::StageReplayOptions options;
      options.window_rounds = window;
      options.more_windows = rounds / window;
      PRISM_ASSIGN_OR_RETURN(JobReplay replay, Evaluate(evaluator, options));
      replay.shortened = true;
      if (replay.result.known && (!replay.stalled.has_value() || replay.stalled->known)) {
        return std::optional(std::move(replay));
      }
    }
    return std::optional<JobReplay>();
  }

  Result<JobReplay> Evaluate(replayer::StageEvaluator& evaluator,
                             const replayer::StageReplayOptions& options) const {
    JobReplay replay;
    PRISM_ASSIGN_OR_RETURN(replay.result, evaluator.Evaluate(cluster_, options));
    if (stalled_.has_value()) {
      PRISM_ASSIGN_OR_RETURN(replay.stalled, evaluator.Evaluate(*stalled_, options));
    }
    return replay;
  }

  const graph::JobSpec& job_;
  const graph::TrainingStyle& style_;
  graph::ClusterSpec cluster_;
  std::optional<graph::ClusterSpec> stalled_;
};

}  // namespace

Result<JobReplay> ReplayJob(const graph::JobSpec& job,
                            const graph::TrainingStyle& style,
                            const graph::ClusterSpec& cluster,
                            bool stalls) {
  return Replayer(job, style, cluster, stalls).Run();
}

}  // namespace prism::launch
