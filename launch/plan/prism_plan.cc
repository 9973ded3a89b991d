#include "launch/plan/prism_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "launch/plan/plan_evaluator.h"
#include "launch/plan/plan_space.h"
#include "launch/plan/run_cost.h"

struct prism_plan_evaluator {
  prism::launch::PlanEvaluator evaluator;
};

namespace prism::launch {
namespace {

const char* Or(const char* text, const char* fallback) {
  return text == nullptr ? fallback : text;
}

// The same bounds as for the options of prism search.
Status CheckProblem(const prism_plan_problem& given) {
  constexpr int64_t kMaxSequences = int64_t{1} << 20;
  constexpr int64_t kMaxTokens = int64_t{1} << 24;
  if (given.global_batch_size < 0 || given.global_batch_size > kMaxSequences) {
    return InvalidArgument(
        fmt::format("global_batch_size is {}; it must be from 0 (the model's own) to {}",
                    given.global_batch_size, kMaxSequences));
  }
  if (given.seq_len < 0 || given.seq_len > kMaxTokens) {
    return InvalidArgument(fmt::format("seq_len is {}; it must be from 0 (the model's own) to {}",
                                       given.seq_len, kMaxTokens));
  }
  return std::isfinite(given.tokens) && given.tokens >= 0
             ? OkStatus()
             : InvalidArgument(fmt::format("tokens is {}; it must be 0 or more", given.tokens));
}

Result<PlanEvaluator> MakeEvaluator(const prism_plan_problem& given) {
  PRISM_RETURN_IF_ERROR(CheckProblem(given));
  constexpr double kTokens = 300e9;
  PRISM_ASSIGN_OR_RETURN(SearchProblem problem, ProblemOn(Or(given.cluster, "h100-8x"),
                                                          Or(given.framework, "megatron-core")));
  PRISM_RETURN_IF_ERROR(TakeModel(Or(given.model, "gpt3-175b"), &problem));
  problem.global_batch_size =
      given.global_batch_size > 0 ? given.global_batch_size : problem.global_batch_size;
  problem.seq_len = given.seq_len > 0 ? given.seq_len : problem.seq_len;
  problem.tokens = given.tokens > 0 ? given.tokens : kTokens;
  if (problem.global_batch_size < 1) {
    return InvalidArgument("the model's file has no batch size; set global_batch_size");
  }
  return PlanEvaluator::Create(std::move(problem), Or(given.precision, ""));
}

// The search's messages name options, "--precision: ..."; fields of the problem have the same
// names.
std::string NamingFields(const std::string& message) {
  constexpr std::string_view kOption = "--";
  return message.starts_with(kOption) ? message.substr(kOption.size()) : message;
}

bool IsPlan(const prism_plan_choice& choice) {
  return std::min({choice.tp, choice.cp, choice.pp, choice.dp, choice.ep, choice.vpp,
                   choice.micro_batch_size}) >= 1 &&
         choice.recompute >= 0 && choice.recompute <= 2 && choice.zero >= 0 && choice.zero <= 3 &&
         choice.offload >= 0 && choice.offload <= 3 &&
         !IsTooLarge({.tp = choice.tp, .cp = choice.cp, .dp = choice.dp, .pp = choice.pp});
}

Plan PlanOf(const prism_plan_choice& choice) {
  Plan plan;
  plan.parallel.tp = choice.tp;
  plan.parallel.cp = choice.cp;
  plan.parallel.pp = choice.pp;
  plan.parallel.dp = choice.dp;
  plan.parallel.ep = choice.ep;
  plan.parallel.vpp = choice.vpp;
  plan.micro_batch_size = choice.micro_batch_size;
  plan.recompute = static_cast<graph::Recompute>(choice.recompute);
  plan.zero_stage = choice.zero;
  plan.sequence_parallel = choice.sequence_parallel != 0;
  plan.offload = static_cast<graph::Offload>(choice.offload);
  return plan;
}

void Fill(const PlanEvaluator& evaluator,
          const Plan& plan,
          const JobTime& time,
          const PlanMemory& memory,
          prism_plan_result* result) {
  constexpr double kNotStated = std::numeric_limits<double>::quiet_NaN();
  const RunCost cost = CostOfRun(evaluator.problem(), plan.gpus(), time.seconds, memory.host_bytes);
  const TimeInterval interval = evaluator.IntervalOf(time);
  result->iteration_s = time.seconds;
  result->iteration_low_s = interval.low_s;
  result->iteration_high_s = interval.high_s;
  result->days = cost.days;
  result->gpu_hours = cost.gpu_hours;
  result->price_usd = cost.price_usd.value_or(kNotStated);
  result->energy_kwh = cost.energy_kwh.value_or(kNotStated);
  result->mfu = evaluator.Utilization(plan, time.seconds, graph::ModelFlops);
  result->hfu = evaluator.Utilization(plan, time.seconds, graph::HardwareFlops);
  result->allocated_bytes = memory.allocated_bytes;
  result->device_bytes = memory.device_bytes;
  result->free_bytes = evaluator.capacity_bytes() - memory.device_bytes;
  result->host_bytes = memory.host_bytes;
  result->status = evaluator.Fits(memory) ? PRISM_PLAN_OK : PRISM_PLAN_TOO_LARGE;
}

prism_plan_result Evaluate(const PlanEvaluator& evaluator, const prism_plan_choice& choice) {
  prism_plan_result result = {};
  result.status = PRISM_PLAN_IMPOSSIBLE;
  if (!IsPlan(choice)) {
    return result;
  }
  const Plan plan = PlanOf(choice);
  if (!WhyNoPlan(evaluator.problem(), plan).empty()) {
    return result;
  }
  result.status = PRISM_PLAN_NOT_MODELLED;
  const Result<PlanMemory> memory = evaluator.Memory(plan);
  if (!memory.ok()) {
    return result;
  }
  const Result<JobTime> time = evaluator.TimeWithStalls(plan);
  if (!time.ok()) {
    return result;
  }
  Fill(evaluator, plan, *time, *memory, &result);
  return result;
}

}  // namespace
}  // namespace prism::launch

prism_plan_evaluator* prism_plan_create(const prism_plan_problem* problem,
                                        char* error,
                                        size_t error_size) {
  auto evaluator = prism::launch::MakeEvaluator(*problem);
  if (evaluator.ok()) {
    return std::make_unique<prism_plan_evaluator>(prism_plan_evaluator{*std::move(evaluator)})
        .release();
  }
  if (error_size > 0) {
    const std::string message = prism::launch::NamingFields(evaluator.status().message());
    const size_t length = std::min(message.size(), error_size - 1);
    std::memcpy(error, message.data(), length);
    error[length] = '\0';
  }
  return nullptr;
}

void prism_plan_destroy(prism_plan_evaluator* evaluator) {
  const std::unique_ptr<prism_plan_evaluator> owned(evaluator);
}

int64_t prism_plan_evaluate(const prism_plan_evaluator* evaluator,
                            const prism_plan_choice* plans,
                            int64_t count,
                            int32_t threads,
                            prism_plan_result* results) {
  prism::ParallelFor(std::max(threads, int32_t{1}), count, [&](int64_t i) {
    results[i] = prism::launch::Evaluate(evaluator->evaluator, plans[i]);
  });
  return std::count_if(results, results + count, [](const prism_plan_result& result) {
    return result.status == PRISM_PLAN_OK;
  });
}
