#include "launch/emulate/run/forecast.h"

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/job/training_style.h"
#include "launch/plan/device_memory.h"
#include "launch/plan/shortened_job.h"
#include "replayer/memory/stage_memory.h"

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
  PRISM_ASSIGN_OR_RETURN(const JobReplay replay,
                         ReplayJobAlone(context.job, kBuiltIn, context.cluster));
  return SecondsFromNs(replay.result.iteration_ns);
}

Result<replayer::PeakMemory> WorstMemory(const RunContext& context) {
  const graph::JobSpec& job = context.job;
  const replayer::StageMemoryOptions options = MemoryOptionsOf(context.cluster);
  replayer::PeakMemory worst;
  for (const slicer::PlannedRole& role : context.plan.roles) {
    PRISM_ASSIGN_OR_RETURN(const replayer::StageMemory memory,
                           replayer::PredictStageMemory(job, kBuiltIn, role.stage, options));
    const int64_t device =
        memory.peak_reserved + OutsideAllocatorBytes(context.cluster, job, role.stage);
    if (device > worst.device_bytes) {
      worst = {role.representative, memory.peak_allocated, memory.peak_reserved, device};
    }
  }
  return worst;
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
