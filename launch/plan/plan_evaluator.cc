#include "launch/plan/plan_evaluator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/intern.h"
#include "graph/describe.h"
#include "graph/job/stage_layers.h"
#include "launch/inputs/presets.h"
#include "launch/inputs/variation.h"
#include "launch/plan/offloaded_job.h"
#include "launch/plan/peak_flops.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/memory/model_states.h"
#include "slicer/synthesize/model_chunks.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// A plan with the same model states: these depend only on whether there are several micro-batches,
// and not on recomputation.
Plan WithStatesOf(const SearchProblem& problem, Plan plan) {
  const int64_t sequences = problem.global_batch_size / plan.parallel.dp;  // of a rank
  plan.micro_batch_size = sequences > plan.micro_batch_size ? 1 : sequences;
  plan.recompute = graph::Recompute::kNone;
  return plan;
}

std::string StatedKeys(const StatedNumbers& numbers) {
  std::vector<std::string> keys;
  for (const graph::Parameter& number : numbers.all) {
    keys.push_back(number.key);
  }
  return keys.empty() ? "" : fmt::format("; it has {}", fmt::join(keys, ", "));
}

}  // namespace

Result<PlanEvaluator> PlanEvaluator::Create(SearchProblem problem, const std::string& precision) {
  PRISM_ASSIGN_OR_RETURN(FrameworkStyle style,
                         FrameworkStyle::Create(problem.framework, precision));
  const Framework& framework = *FrameworkNamed(problem.framework);
  if (!NcclOfTime(framework).empty()) {
    PRISM_RETURN_IF_ERROR(LayOver(NcclOfTime(framework), "", &problem.cluster));
  }
  PRISM_RETURN_IF_ERROR(
      LayOver(fmt::format("frameworks/{}", framework.profile_name), "", &problem.cluster));
  if (const auto rate = problem.host.Value("link_bytes_per_s")) {
    PRISM_ASSIGN_OR_RETURN(problem.cluster,
                           VariedCluster(problem.cluster, "gpu.copy_bytes_per_s", *rate));
  }
  return PlanEvaluator(std::move(problem), std::move(style));
}

Result<PlanEvaluator> PlanEvaluator::Varied(const std::string& key, double value) const {
  SearchProblem problem = problem_;
  std::string of_cluster = key;
  const std::pair<std::string, StatedNumbers*> tables[] = {{"costs", &problem.costs},
                                                           {"host_memory", &problem.host}};
  for (const auto& [table, numbers] : tables) {
    if (!key.starts_with(table + ".")) {
      continue;
    }
    const std::string name = key.substr(table.size() + 1);
    if (!numbers->Value(name).has_value()) {
      return InvalidArgument(fmt::format("--vary: [{}] of {} has no '{}'{}", table,
                                         problem.cluster.name, name, StatedKeys(*numbers)));
    }
    numbers->Restate(name, value);
    if (key != "host_memory.link_bytes_per_s") {
      return PlanEvaluator(std::move(problem), style_);
    }
    of_cluster = "gpu.copy_bytes_per_s";
  }
  PRISM_ASSIGN_OR_RETURN(problem.cluster, VariedCluster(problem_.cluster, of_cluster, value));
  if (const Status usable = replayer::CheckCluster(problem.cluster); !usable.ok()) {
    return InvalidArgument(fmt::format("--vary: {} at {:g}: {}", key, value, usable.message()));
  }
  return PlanEvaluator(std::move(problem), style_);
}

PlanEvaluator::Job PlanEvaluator::Describe(const Plan& plan) const {
  Job job;
  job.spec = JobOf(problem_, plan);
  job.style = style_.Of(job.spec);
  job.style.moe_node_ranks = NodeRanksOfExperts(job.spec.parallel, problem_.cluster.gpus_per_node);
  job.spec.compute_dtype = graph::ActivationType(job.style.precision);
  job.style = WithHostTimes(job.spec, job.style, problem_.cluster.parameters);
  return job;
}

Result<JobTime> PlanEvaluator::TimeOfJob(const Plan& plan, bool stalls) const {
  const Job job = Describe(plan);
  PRISM_ASSIGN_OR_RETURN(const graph::JobProgram program,
                         plan.offload == graph::Offload::kNone
                             ? slicer::Synthesize(job.spec, job.style, slicer::Markers::kNone)
                             : SynthesizeOffloaded(job.spec, job.style, plan.offload));
  PRISM_ASSIGN_OR_RETURN(replayer::StageEvaluator evaluator,
                         replayer::StageEvaluator::Create(program));
  const TimedJob timed = {job.spec, job.style};
  return stalls ? launch::TimeWithStalls(evaluator, timed, problem_.cluster)
                : TimeOf(evaluator, timed, problem_.cluster);
}

Result<JobTime> PlanEvaluator::Time(const Plan& plan) const {
  return TimeOfJob(plan, /*stalls=*/false);
}

Result<JobTime> PlanEvaluator::TimeWithStalls(const Plan& plan) const {
  return TimeOfJob(plan, /*stalls=*/true);
}

BusyTimes PlanEvaluator::BusyTimesOf(const Plan& plan, const Job& job) const {
  const graph::ParallelSizes& sizes = plan.parallel;
  LayerTimes::Key key = {0,
                         sizes.tp,
                         sizes.cp,
                         sizes.ep,
                         plan.micro_batch_size,
                         plan.recompute,
                         plan.sequence_parallel};
  const graph::TrainingStyle of_layer = slicer::UnitStyle(job.style);
  {
    const std::lock_guard<std::mutex> lock(layer_times_->mutex);
    std::get<0>(key) = InternValue(layer_times_->styles, of_layer);
    const auto found = layer_times_->by_shape.find(key);
    if (found != layer_times_->by_shape.end()) {
      return found->second;
    }
  }
  const Result<BusyTimes> times = FindBusyTimes(job.spec, job.style, problem_.cluster);
  const std::lock_guard<std::mutex> lock(layer_times_->mutex);
  return layer_times_->by_shape.try_emplace(key, times.ok() ? *times : BusyTimes{}).first->second;
}

// A stage copies one piece after the other to its device.
DurationNs PlanEvaluator::CopyFloor(const Plan& plan, const Job& job) const {
  constexpr double kNsOfSecond = 1e9;
  int64_t most = 0;
  if (plan.offload != graph::Offload::kNone) {
    for (const int32_t stage : {0, plan.parallel.pp - 1}) {
      const Result<int64_t> bytes = CopiedInBytes(job.spec, job.style, plan.offload, stage);
      most = std::max(most, bytes.ok() ? *bytes : 0);
    }
  }
  const double rate = problem_.cluster.parameters.Value("gpu.copy_bytes_per_s");
  return static_cast<DurationNs>(kNsOfSecond * static_cast<double>(most) / rate);
}

// The last stage has the head, and may have fewer layers than the one before.
double PlanEvaluator::TimeFloor(const Plan& plan) const {
  const Job job = Describe(plan);
  const BusyTimes busy = BusyTimesOf(plan, job);
  const int32_t last = plan.parallel.pp - 1;
  int64_t before = 0;  // layers in the first chunks of the earlier stages
  DurationNs computes = 0;
  for (int32_t stage = 0; stage <= last; ++stage) {
    if (stage >= last - 1) {
      const DurationNs of_micro_batch =
          replayer::LayersOfStage(job.spec, job.style, stage) * busy.layer +
          (stage == last ? busy.head : 0);
      computes = std::max(computes, job.spec.microbatches() * of_micro_batch + before * busy.layer);
    }
    const graph::LayerRange first_chunk = graph::LayersOfChunk(job.spec, job.style, stage);
    before += first_chunk.end - first_chunk.begin;
  }
  return SecondsOfIteration(std::max(computes, CopyFloor(plan, job)), job.style,
                            problem_.cluster.parameters);
}

int64_t PlanEvaluator::MemoryFloor(const Plan& plan) const {
  const Plan states = WithStatesOf(problem_, plan);
  {
    const std::lock_guard<std::mutex> lock(memory_floors_->mutex);
    const auto found = memory_floors_->by_states.find(states);
    if (found != memory_floors_->by_states.end()) {
      return found->second;
    }
  }
  const int64_t floor = StatesFloor(states);
  const std::lock_guard<std::mutex> lock(memory_floors_->mutex);
  return memory_floors_->by_states.try_emplace(states, floor).first->second;
}

int64_t PlanEvaluator::StatesFloor(const Plan& plan) const {
  const Job job = Describe(plan);
  int64_t most = 0;
  for (const int32_t stage : {0, plan.parallel.pp - 1}) {
    const Result<std::vector<replayer::StateTensor>> states =
        replayer::StatesOfStage(job.spec, job.style, stage);
    if (!states.ok()) {
      return 0;
    }
    int64_t bytes = replayer::OutsideAllocatorBytes(problem_.cluster, job.spec, stage);
    for (const replayer::StateTensor& state : *states) {
      const bool moves = state.moment && graph::OffloadsOptimizer(plan.offload);
      bytes += moves ? 0 : state.bytes;
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::optional<int64_t> PlanEvaluator::host_capacity_bytes() const {
  const std::optional<double> bytes = problem_.host.Value("bytes_per_gpu");
  return bytes.has_value() ? std::optional(std::llround(*bytes)) : std::nullopt;
}

TimeInterval PlanEvaluator::IntervalOf(const JobTime& time) const {
  graph::JobSpec job;
  job.model = problem_.model;
  return launch::IntervalOf(time, problem_.cluster.parameters,
                            style_.Of(job).moe_fused_dispatch ? kDispatchSpread : 0);
}

Result<PlanMemory> PlanEvaluator::Memory(const Plan& plan) const {
  const Job job = Describe(plan);
  PRISM_ASSIGN_OR_RETURN(const std::vector<replayer::HostTier> tiers,
                         HostTiersOf(job.spec, job.style, plan.offload));
  return replayer::FullestRankOf(problem_.cluster, job.spec, job.style, tiers);
}

double PlanEvaluator::Utilization(const Plan& plan,
                                  double iteration_s,
                                  double (*flops)(const graph::JobSpec& job)) const {
  const Job job = Describe(plan);
  const double peak = static_cast<double>(plan.gpus()) *
                      PeakFlops(problem_.cluster, job.style.precision) * iteration_s;
  return flops(job.spec) / peak;
}

PlanEvaluator::AssumptionLines PlanEvaluator::Assumptions(const Plan& plan) const {
  const auto assumed = [](const std::vector<graph::Parameter>& parameters) {
    std::vector<std::string> lines;
    for (const graph::Parameter& parameter : parameters) {
      if (parameter.mark == graph::Mark::kAssumed) {
        lines.push_back(fmt::format("{} = {:.6g}{}: {}", parameter.key, parameter.value,
                                    graph::UnitText(parameter), parameter.source));
      }
    }
    return lines;
  };
  AssumptionLines lines = {problem_.model_assumptions,
                           assumed(problem_.cluster.parameters.all()),
                           assumed(problem_.costs.all),
                           {}};
  for (std::string& line : style_.Assumptions(JobOf(problem_, plan))) {
    lines.framework.push_back(std::move(line));
  }
  const std::string lacking = LackingFormat(problem_.cluster, Describe(plan).style.precision);
  if (!lacking.empty()) {
    lines.framework.push_back(lacking);
  }
  lines.framework.insert(lines.framework.end(), problem_.notes.begin(), problem_.notes.end());
  if (plan.offload != graph::Offload::kNone) {
    lines.offload = OffloadAssumptions(plan.offload);
    for (const std::string& line : assumed(problem_.host.all)) {
      lines.offload.push_back(line);
    }
  }
  return lines;
}

}  // namespace prism::launch
