// BenchSearch (launch/bench/bench.h): how fast plans are evaluated, from an empty cache, in the
// order of a search, through the library, and as a complete search. Rates are per second of CPU
// time, and plans are drawn with a fixed seed, so that two builds are compared on the same work.
#include "launch/plan/search.h"

#include <algorithm>
#include <utility>

#include "graph/base/rng.h"
#include "launch/bench/bench.h"
#include "launch/inputs/presets.h"
#include "launch/plan/plan_library.h"
#include "launch/process/mpi_session.h"
#include "launch/process/stop_watch.h"

namespace prism::launch {
namespace {

constexpr int64_t kGpus = 8192;
constexpr size_t kPlans = 200;
constexpr size_t kManyPlans = 1000;
constexpr size_t kNeighbours = 800;
constexpr size_t kUsualPlans = 1000;

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

// What a rank of the plan computes: everything that determines its layers.
Plan LayersOf(Plan plan) {
  plan.parallel.pp = plan.parallel.dp = plan.parallel.vpp = 1;
  plan.zero_stage = 0;
  return plan;
}

// All plans that may fit with randomly drawn kinds of layers, as many kinds as give that many
// plans: a sample of an evaluation of all plans.
std::vector<Plan> PlansOfDrawnLayers(const PlanEvaluator& evaluator, size_t count) {
  PlanChoices choices;
  choices.gpus = {kGpus};
  std::vector<Plan> all = EnumeratePlans(evaluator.problem(), choices).plans;
  std::sort(all.begin(), all.end(), BeforeByLayers);
  Rng rng(1, "bench search");
  std::vector<Plan> plans;
  while (plans.size() < count) {
    const int64_t drawn = rng.UniformInt(0, static_cast<int64_t>(all.size()) - 1);
    const Plan layers = LayersOf(all[static_cast<size_t>(drawn)]);
    std::erase_if(all, [&](const Plan& plan) {
      const bool mine = LayersOf(plan) == layers;
      if (mine && evaluator.MemoryFloor(plan) <= evaluator.capacity_bytes()) {
        plans.push_back(plan);
      }
      return mine;
    });
  }
  return plans;
}

// Plans that may fit, one after the other in the order of a search, from its middle.
std::vector<Plan> NeighbouringPlans(const PlanEvaluator& evaluator, size_t count) {
  PlanChoices choices;
  choices.gpus = {kGpus};
  const PlanSpace space = EnumeratePlans(evaluator.problem(), choices);
  std::vector<Plan> plans;
  for (size_t i = space.plans.size() / 2; i < space.plans.size() && plans.size() < count; ++i) {
    if (evaluator.MemoryFloor(space.plans[i]) <= evaluator.capacity_bytes()) {
      plans.push_back(space.plans[i]);
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

// Hit rates of the cache, and how many plans were replayed by phrases.
void AddShares(const CacheShares& before, const CacheShares& after, BenchCase* bench) {
  const auto share = [](const replayer::CacheCount& from, const replayer::CacheCount& to) {
    return 100.0 * static_cast<double>(to.found - from.found) /
           static_cast<double>(to.asked - from.asked);
  };
  bench->metrics.push_back({"units_found", share(before.units, after.units), "%"});
  bench->metrics.push_back({"folded_blocks_found", share(before.folds, after.folds), "%"});
  bench->metrics.push_back({"by_phrases", share(before.by_phrases, after.by_phrases), "%"});
}

Result<BenchCase> TimesCase(const char* name,
                            const PlanEvaluator& evaluator,
                            const std::vector<Plan>& plans) {
  const CacheShares before = evaluator.cache_shares();
  const StopWatch watch;
  for (const Plan& plan : plans) {
    PRISM_RETURN_IF_ERROR(evaluator.Time(plan).status().WithContext(DescribePlan(plan)));
  }
  BenchCase bench = RateCase(name, plans.size(), watch, 1);
  AddShares(before, evaluator.cache_shares(), &bench);
  return bench;
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

BenchResult BenchSearch(int threads) {
  PRISM_ASSIGN_OR_RETURN(const PlanEvaluator evaluator, Gpt3Evaluator());
  const std::vector<Plan> plans = DrawPlans(evaluator, kPlans, /*usual=*/false);
  std::vector<BenchCase> cases;
  PRISM_ASSIGN_OR_RETURN(
      BenchCase cold,
      TimesCase("full replay of plans on 8192 GPUs, cache empty at first", evaluator, plans));
  cases.push_back(std::move(cold));
  PRISM_ASSIGN_OR_RETURN(const PlanEvaluator afresh, Gpt3Evaluator());
  PRISM_ASSIGN_OR_RETURN(BenchCase ordered,
                         TimesCase("full replay of all plans of layers that were drawn", afresh,
                                   PlansOfDrawnLayers(afresh, kManyPlans)));
  cases.push_back(std::move(ordered));
  PRISM_ASSIGN_OR_RETURN(BenchCase sweep,
                         TimesCase("full replay of neighbours in the order of a search", evaluator,
                                   NeighbouringPlans(evaluator, kNeighbours)));
  cases.push_back(std::move(sweep));
  const StopWatch memories;
  for (const Plan& plan : plans) {
    PRISM_RETURN_IF_ERROR(evaluator.Memory(plan).status().WithContext(DescribePlan(plan)));
  }
  cases.push_back(RateCase("memory of plans on 8192 GPUs", kPlans, memories, 1));
  PRISM_ASSIGN_OR_RETURN(BenchCase library,
                         LibraryCase(DrawPlans(evaluator, kUsualPlans, /*usual=*/true), threads));
  cases.push_back(std::move(library));
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
