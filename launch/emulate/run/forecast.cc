#include "launch/emulate/run/forecast.h"

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/job/training_style.h"
#include "replayer/memory/device_memory.h"
#include "replayer/stages/stage_replay.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// How the built-in program runs a job.
constexpr graph::TrainingStyle kBuiltIn;

bool IsSynthesised(const RunContext& context) {
  const Options& options = context.options;
  return context.perturbations.empty() && options.network == replayer::NetworkModel::kAnalytic &&
         options.host_factor == 0 && options.device == Device::kVirtual;
}

Result<double> IterationTime(const RunContext& context) {
  PRISM_ASSIGN_OR_RETURN(const graph::JobProgram program,
                         slicer::Synthesize(context.job, kBuiltIn, slicer::Markers::kNone));
  PRISM_ASSIGN_OR_RETURN(replayer::StageEvaluator evaluator,
                         replayer::StageEvaluator::Create(program));
  PRISM_ASSIGN_OR_RETURN(const replayer::StageReplayResult result,
                         evaluator.Evaluate(context.cluster, {}));
  return SecondsFromNs(result.iteration_ns);
}

Result<replayer::PeakMemory> WorstMemory(const RunContext& context) {
  PRISM_ASSIGN_OR_RETURN(const replayer::FullestRank fullest,
                         replayer::FullestRankOf(context.cluster, context.job, kBuiltIn));
  const slicer::PlannedRole& role = context.plan.roles[static_cast<size_t>(fullest.stage)];
  return replayer::PeakMemory{role.representative, fullest.allocated_bytes, fullest.reserved_bytes,
                              fullest.device_bytes};
}

}  // namespace

std::optional<Forecast> ForecastOf(const RunContext& context) {
  if (context.job.user_program || !context.options.graph.empty()) {
    return std::nullopt;
  }
  Forecast forecast;
  if (IsSynthesised(context)) {
    const Result<double> time = IterationTime(context);
    forecast.iteration_time_s = time.ok() ? std::optional(*time) : std::nullopt;
  }
  const Result<replayer::PeakMemory> memory = WorstMemory(context);
  forecast.peak_memory = memory.ok() ? *memory : replayer::PeakMemory();
  return forecast;
}

}  // namespace prism::launch
