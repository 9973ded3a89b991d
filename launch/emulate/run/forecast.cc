#include "launch/emulate/run/forecast.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/job/training_style.h"
#include "launch/plan/plan_evaluator.h"
#include "launch/plan/style_difference.h"
#include "replayer/cost/congestion.h"
#include "replayer/memory/device_memory.h"
#include "replayer/stages/stage_replay.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// How the built-in program runs a job.
constexpr graph::TrainingStyle kBuiltIn;
constexpr const char* kOnceAnIteration = "host.iteration_ns";

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

// "host.*" for each group of parameters of which a time depends on some that are not equal.
std::set<std::string> OtherParameters(const graph::ParameterTable& ours,
                                      const graph::ParameterTable& others) {
  std::set<std::string> groups;
  for (const graph::Parameter& parameter : others.all()) {
    const graph::Parameter* const own = ours.Find(parameter.key);
    const std::string group = parameter.key.substr(0, parameter.key.find('.'));
    if ((own == nullptr || own->value != parameter.value) && group != "spread" &&
        group != "memory" && parameter.key != kOnceAnIteration) {
      groups.insert(group + ".*");
    }
  }
  return groups;
}

Result<SearchAnswer> AskSearch(const RunContext& context) {
  const graph::JobSpec& job = context.job;
  SearchProblem problem;
  problem.model = job.model;
  problem.cluster = context.cluster;
  problem.framework = kMegatronCore.name;
  problem.global_batch_size = job.global_batch_size;
  problem.seq_len = job.seq_len;
  const Plan plan = WithoutIdleZero(
      {job.parallel, job.micro_batch_size, job.recompute, job.zero_stage, job.sequence_parallel});
  PRISM_ASSIGN_OR_RETURN(const PlanEvaluator evaluator,
                         PlanEvaluator::Create(std::move(problem), ""));
  PRISM_ASSIGN_OR_RETURN(const JobTime time, evaluator.Time(plan));
  const PlanEvaluator::Job described = evaluator.Describe(plan);
  SearchAnswer answer = {evaluator.problem().framework, time.seconds,
                         StyleDifferences(described.style, kBuiltIn)};
  const graph::ClusterSpec cluster =
      replayer::WithCongestion(evaluator.problem().cluster, described.spec);
  for (const std::string& group : OtherParameters(context.cluster.parameters, cluster.parameters)) {
    answer.differences.push_back("parameters " + group);
  }
  if (const double once_ns = cluster.parameters.Value(kOnceAnIteration); once_ns > 0) {
    answer.differences.push_back(
        fmt::format("{:.3g} ms of the host once an iteration", once_ns / 1e6));
  }
  return answer;
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
    if (time.ok()) {
      forecast.iteration_time_s = *time;
      const Result<SearchAnswer> search = AskSearch(context);
      forecast.search = search.ok() ? std::optional(*search) : std::nullopt;
    }
  }
  const Result<replayer::PeakMemory> memory = WorstMemory(context);
  forecast.peak_memory = memory.ok() ? *memory : replayer::PeakMemory();
  return forecast;
}

}  // namespace prism::launch
