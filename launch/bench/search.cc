// BenchSearch (launch/bench/bench.h): how fast plans are evaluated, one by one, through the
// library, and as a complete search. Rates are per second of CPU time, and plans are drawn with a
// fixed seed, so that two builds are compared on the same work.
#include "launch/plan/search.h"

#include <algorithm>
#include <utility>

#include "graph/base/rng.h"
#include "launch/bench/bench.h"
#include "launch/plan/plan_library.h"
#include "launch/process/mpi_session.h"
#include "launch/process/stop_watch.h"

namespace prism::launch {
namespace {

constexpr int64_t kGpus = 8192;
constexpr size_t kPlans = 200;
constexpr size_t kUsualPlans = 1000;

Result<PlanEvaluator> Gpt3Evaluator() {
  PRISM_ASSIGN_OR_RETURN(SearchProblem problem, ProblemOn("h100-8x", "megatron-core"));
  PRISM_RETURN_IF_ERROR(TakeModel("gpt3-175b", &problem));
  problem.tokens = 300e9;
  return PlanEvaluator::Create(std::move(problem), "");
}

// Plans that may fit, drawn from all on those GPUs, or from those with tensor parallelism inside a
// node and whole sequences.
std::vector<Plan> DrawPlans(const PlanEvaluator& evaluator, size_t count, bool usual) {
  PlanChoices choices;
  choices.gpus = {kGpus};
  if (usual) {
    choices.tp = {1, 2, 4, 8};
    choices.cp = {1};
  }
  const PlanSpace space = EnumeratePlans(evaluator.problem(), choices);
  Rng rng(1, "bench search");
  std::vector<Plan> plans;
  while (plans.size() < count) {
    const int64_t drawn = rng.UniformInt(0, static_cast<int64_t>(space.plans.size()) - 1);
    const Plan& plan = space.plans[static_cast<size_t>(drawn)];
    if (evaluator.MemoryFloor(plan) <= evaluator.capacity_bytes()) {
      plans.push_back(plan);
    }
  }
  return plans;
}

// How many plans were evaluated, and in which time. Rates are per second of CPU time, which leaves
// out whatever else the machine does.
BenchCase RateCase(const char* name, size_t count, const StopWatch& watch, int threads) {
  const auto plans = static_cast<double>(count);
  return {"search",
          name,
          {{"plans", plans, "plans"},
           {"seconds", watch.Seconds(), "s"},
           {"threads", static_cast<double>(threads), "threads"},
           {"plans_per_s_per_core", plans / watch.CpuSeconds(), "plans/s"}}};
}

Result<BenchCase> TimesCase(const char* name,
                            const PlanEvaluator& evaluator,
                            const std::vector<Plan>& plans) {
  const StopWatch watch;
  for (const Plan& plan : plans) {
    PRISM_RETURN_IF_ERROR(evaluator.Time(plan).status().WithContext(DescribePlan(plan)));
  }
  return RateCase(name, plans.size(), watch, 1);
}

prism_plan_choice ChoiceOf(const Plan& plan) {
  const graph::ParallelSizes& sizes = plan.parallel;
  return {sizes.tp,
          sizes.cp,
          sizes.pp,
          sizes.dp,
          sizes.ep,
          sizes.vpp,
          static_cast<int32_t>(plan.micro_batch_size),
          static_cast<int32_t>(plan.recompute),
          plan.zero_stage,
          plan.sequence_parallel ? 1 : 0,
          static_cast<int32_t>(plan.offload)};
}

// Time, its interval and memory, as an outside optimiser asks for them; the evaluator is created
// for this case.
Result<BenchCase> LibraryCase(const std::vector<Plan>& plans, int threads) {
  std::vector<prism_plan_choice> choices;
  for (const Plan& plan : plans) {
    choices.push_back(ChoiceOf(plan));
  }
  std::vector<prism_plan_result> results(plans.size());
  const StopWatch watch;
  const PlanLibrary library({});
  if (!library.ok()) {
    return RunFailed(library.error());
  }
  library.Evaluate(choices, results, threads);
  return RateCase("library call: time and memory of usual plans on 8192 GPUs", plans.size(), watch,
                  threads);
}

}  // namespace

BenchResult BenchSearch(const BenchOptions& bench) {
  PRISM_ASSIGN_OR_RETURN(const PlanEvaluator evaluator, Gpt3Evaluator());
  const std::vector<Plan> plans = DrawPlans(evaluator, kPlans, /*usual=*/false);
  std::vector<BenchCase> cases;
  PRISM_ASSIGN_OR_RETURN(BenchCase cold,
                         TimesCase("full replay of plans on 8192 GPUs", evaluator, plans));
  cases.push_back(std::move(cold));
  const StopWatch memories;
  for (const Plan& plan : plans) {
    PRISM_RETURN_IF_ERROR(evaluator.Memory(plan).status().WithContext(DescribePlan(plan)));
  }
  cases.push_back(RateCase("memory of plans on 8192 GPUs", kPlans, memories, 1));
  PRISM_ASSIGN_OR_RETURN(
      BenchCase library,
      LibraryCase(DrawPlans(evaluator, kUsualPlans, /*usual=*/true), bench.threads));
  cases.push_back(std::move(library));
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  SearchOptions options;
  options.choices.gpus = {kGpus};
  options.threads = bench.threads;
  const StopWatch search;
  PRISM_ASSIGN_OR_RETURN(const SearchResult result, Search(evaluator, options, session));
  const double seconds = search.Seconds();
  cases.push_back({"search",
                   "complete search of gpt3-175b on 8192 GPUs",
                   {{"candidates", static_cast<double>(result.candidates), "plans"},
                    {"evaluated", static_cast<double>(result.evaluated), "plans"},
                    {"seconds", seconds, "s"},
                    {"threads", static_cast<double>(bench.threads), "threads"},
                    {"best_iteration_time_s", result.best.front().time.seconds, "s"}}});
  return cases;
}

}  // namespace prism::launch
