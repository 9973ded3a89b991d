#include "launch/verbs/bench_search.h"

#include <utility>

#include "graph/base/rng.h"
#include "launch/options/presets.h"
#include "launch/process/mpi_session.h"
#include "launch/process/stop_watch.h"
#include "launch/search/search.h"

namespace prism::launch {
namespace {

constexpr int64_t kGpus = 8192;
constexpr size_t kPlans = 200;

Result<PlanEvaluator> Gpt3Evaluator() {
  SearchProblem problem;
  PRISM_ASSIGN_OR_RETURN(ModelPreset preset, LoadModel("gpt3-175b"));
  PRISM_ASSIGN_OR_RETURN(problem.cluster, LoadCluster("h100-8x"));
  PRISM_ASSIGN_OR_RETURN(problem.costs, LoadSiteCosts("h100-8x"));
  problem.model = std::move(preset.model);
  problem.framework = "megatron-core";
  problem.global_batch_size = preset.layout.global_batch_size;
  problem.seq_len = problem.model.seq_len;
  problem.tokens = 300e9;
  return PlanEvaluator::Create(std::move(problem), "");
}

std::vector<Plan> DrawPlans(const PlanEvaluator& evaluator) {
  PlanChoices choices;
  choices.gpus = {kGpus};
  const PlanSpace space = EnumeratePlans(evaluator.problem(), choices);
  Rng rng(1, "bench search");
  std::vector<Plan> plans;
  while (plans.size() < kPlans) {
    const int64_t drawn = rng.UniformInt(0, static_cast<int64_t>(space.plans.size()) - 1);
    const Plan& plan = space.plans[static_cast<size_t>(drawn)];
    if (evaluator.MemoryFloor(plan) <= evaluator.capacity_bytes()) {
      plans.push_back(plan);
    }
  }
  return plans;
}

// How many plans were evaluated in which time.
BenchCase RateCase(const char* name, double seconds) {
  return {"search",
          name,
          {{"plans", static_cast<double>(kPlans), "plans"},
           {"seconds", seconds, "s"},
           {"plans_per_s_per_core", static_cast<double>(kPlans) / seconds, "plans/s"}}};
}

}  // namespace

BenchResult BenchSearch(int threads) {
  PRISM_ASSIGN_OR_RETURN(const PlanEvaluator evaluator, Gpt3Evaluator());
  const std::vector<Plan> plans = DrawPlans(evaluator);
  std::vector<BenchCase> cases;
  const StopWatch times;
  for (const Plan& plan : plans) {
    PRISM_RETURN_IF_ERROR(evaluator.Time(plan).status().WithContext(DescribePlan(plan)));
  }
  cases.push_back(RateCase("full replay of plans on 8192 GPUs", times.Seconds()));
  const StopWatch memories;
  for (const Plan& plan : plans) {
    PRISM_RETURN_IF_ERROR(evaluator.Memory(plan).status().WithContext(DescribePlan(plan)));
  }
  cases.push_back(RateCase("memory of plans on 8192 GPUs", memories.Seconds()));
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  SearchOptions options;
  options.choices.gpus = {kGpus};
  options.threads = threads;
  const StopWatch search;
  PRISM_ASSIGN_OR_RETURN(const SearchResult result, Search(evaluator, options, session));
  const double seconds = search.Seconds();
  cases.push_back({"search",
                   "complete search of gpt3-175b on 8192 GPUs",
                   {{"candidates", static_cast<double>(result.candidates), "plans"},
                    {"evaluated", static_cast<double>(result.evaluated), "plans"},
                    {"seconds", seconds, "s"},
                    {"threads", static_cast<double>(threads), "threads"},
                    {"best_iteration_time_s", result.best.front().time.seconds, "s"}}});
  return cases;
}

}  // namespace prism::launch
