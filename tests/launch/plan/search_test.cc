// Searches: plans skipped by a bound never change the answer, bounds are bounds, and costs are
// right.
#include "launch/plan/search.h"

#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "launch/inputs/presets.h"
#include "launch/plan/answer.h"
#include "launch/plan/model_size.h"
#include "launch/plan/search_report.h"
#include "launch/plan/sweep.h"
#include "replayer/cost/congestion.h"
#include "replayer/memory/device_memory.h"
#include "replayer/memory/model_states.h"
#include "replayer/memory/stage_memory.h"
#include "replayer/stages/stage_replay.h"
#include "slicer/synthesize/synthesize.h"
#include "tests/launch/plan/small_search.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;

PlanEvaluator SmallEvaluator(const std::string& framework) {
  Result<PlanEvaluator> evaluator = PlanEvaluator::Create(SmallProblem(framework), "");
  PRISM_CHECK_MSG(evaluator.ok(), evaluator.status().message());
  return *std::move(evaluator);
}

std::vector<Plan> PlansOn(int64_t gpus, const PlanEvaluator& evaluator, size_t count) {
  PlanChoices choices;
  choices.gpus = {gpus};
  return DrawPlans(evaluator, choices, count, Rng(7, "search test"));
}

TEST(Search, leaving_plans_out_never_changes_the_answer) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  Rng rng(3, "small spaces");
  int64_t left_out = 0;
  for (int space = 0; space < 6; ++space) {
    const PlanEvaluator evaluator = SmallEvaluator(space % 2 == 0 ? "megatron-core" : "torchtitan");
    SearchOptions options;
    options.choices.gpus = {8, int64_t{16} << rng.UniformInt(0, 1)};
    options.choices.tp = {1, static_cast<int32_t>(2 << rng.UniformInt(0, 2))};
    options.choices.vpp = {1, static_cast<int32_t>(rng.UniformInt(2, 4))};
    options.choices.cp = {1};
    options.choices.micro_batch_sizes = {1, 4};
    options.choices.recompute = {graph::Recompute::kNone, graph::Recompute::kFull};
    options.objective = static_cast<Objective>(rng.UniformInt(0, 2));
    options.top = 3;
    options.threads = 2;
    const Result<SearchResult> pruned = Search(evaluator, options, *session);
    options.exhaustive = true;
    Result<SearchResult> whole = Search(evaluator, options, *session);
    ASSERT_TRUE(pruned.ok() && whole.ok());
    left_out += pruned->bounded;
    EXPECT_EQ(pruned->evaluated + pruned->bounded + pruned->shortage.plans,
              whole->evaluated + whole->shortage.plans);
    ASSERT_EQ(pruned->best.size(), 3U);
    for (size_t i = 0; i < pruned->best.size(); ++i) {
      EXPECT_EQ(pruned->best[i].plan, whole->best[i].plan) << DescribePlan(whole->best[i].plan);
      EXPECT_EQ(pruned->best[i].time.seconds, whole->best[i].time.seconds);
      EXPECT_EQ(pruned->best[i].interval.low_s, whole->best[i].interval.low_s);
    }
    ASSERT_EQ(pruned->front.size(), whole->front.size());
    for (size_t i = 0; i < pruned->front.size(); ++i) {
      EXPECT_EQ(pruned->front[i].plan, whole->front[i].plan);
    }
  }
  EXPECT_GT(left_out, 100);
}

TEST(Search, threads_do_not_change_a_byte) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  const PlanEvaluator evaluator = SmallEvaluator("megatron-core");
  std::string first;
  for (const int threads : {1, 3}) {
    SearchOptions options;
    options.choices.gpus = {16};
    options.choices.cp = {1};
    options.threads = threads;
    const Result<SearchResult> result = Search(evaluator, options, *session);
    ASSERT_TRUE(result.ok());
    const std::string text = SearchJson(evaluator, options, *result);
    EXPECT_TRUE(first.empty() || first == text);
    first = text;
  }
}

TEST(PlanEvaluator, floors_are_below_time_and_memory) {
  for (const char* framework : {"megatron-core", "megatron-lm", "torchtitan"}) {
    const PlanEvaluator evaluator = SmallEvaluator(framework);
    double tightest = 0;
    for (const Plan& plan : PlansOn(32, evaluator, 60)) {
      const Result<JobTime> time = evaluator.Time(plan);
      ASSERT_TRUE(time.ok()) << DescribePlan(plan) << ": " << time.status().message();
      const double floor = evaluator.TimeFloor(plan);
      EXPECT_LE(floor, time->seconds) << framework << " " << DescribePlan(plan);
      EXPECT_GT(floor, 0);
      tightest = std::max(tightest, floor / time->seconds);
      const Result<PlanMemory> memory = evaluator.Memory(plan);
      ASSERT_TRUE(memory.ok());
      EXPECT_LE(evaluator.MemoryFloor(plan), memory->device_bytes) << DescribePlan(plan);
    }
    EXPECT_GT(tightest, 0.6) << framework;
  }
}

// The groups of a later stage may be on fewer nodes than those of the first one.
TEST(PlanEvaluator, floors_are_below_time_where_stages_are_not_whole_nodes) {
  SearchProblem problem = SmallProblem("megatron-core");
  problem.model = LoadModel("gpt3-13b")->model;  // 40 heads and layers
  problem.cluster = *LoadCluster("h200-8x");
  problem.seq_len = 2048;
  problem.global_batch_size = 8;
  const Result<PlanEvaluator> evaluator = PlanEvaluator::Create(problem, "");
  ASSERT_TRUE(evaluator.ok());
  double tightest = 0;
  for (const char* text : {"tp=10,pp=2", "tp=10,pp=4", "tp=5,pp=4", "tp=20,pp=2", "tp=5,cp=2,pp=8",
                           "tp=5,pp=2,dp=4", "tp=10,pp=8,mb=2"}) {
    const Result<Plan> plan = ParsePlan(text);
    ASSERT_TRUE(plan.ok()) << text;
    const Result<JobTime> time = evaluator->Time(*plan);
    ASSERT_TRUE(time.ok()) << text << ": " << time.status().message();
    EXPECT_LE(evaluator->TimeFloor(*plan), time->seconds) << text;
    tightest = std::max(tightest, evaluator->TimeFloor(*plan) / time->seconds);
  }
  EXPECT_GT(tightest, 0.6);
}

// Layers of different ZeRO stages differ, though all are looked up by shape.
TEST(PlanEvaluator, floors_do_not_depend_on_what_was_asked_before) {
  for (const char* framework : {"megatron-core", "megatron-lm"}) {
    const PlanEvaluator together = SmallEvaluator(framework);
    std::vector<double> floors;
    for (const char* zero : {"0", "2", "3"}) {
      const Plan plan = *ParsePlan(std::string("dp=8,recompute=full,zero=") + zero);
      floors.push_back(together.TimeFloor(plan));
      EXPECT_EQ(floors.back(), SmallEvaluator(framework).TimeFloor(plan)) << framework << zero;
    }
    EXPECT_NE(floors.front(), floors.back());
  }
}

// Plans that differ only in micro-batches and recomputation share a floor.
TEST(PlanEvaluator, memory_floor_is_that_of_the_plans_own_states) {
  for (const char* framework : {"megatron-core", "torchtitan", "nanotron"}) {
    const PlanEvaluator evaluator = SmallEvaluator(framework);
    const Result<FrameworkStyle> styles = FrameworkStyle::Create(framework, "");
    for (const Plan& plan : PlansOn(32, evaluator, 200)) {
      graph::JobSpec job = JobOf(evaluator.problem(), plan);
      const graph::TrainingStyle& style = styles->Of(job);
      job.compute_dtype = graph::ActivationType(style.precision);
      int64_t worst = 0;
      for (const int32_t stage : {0, plan.parallel.pp - 1}) {
        int64_t bytes = replayer::OutsideAllocatorBytes(evaluator.problem().cluster, job, stage);
        const auto states = replayer::StatesOfStage(job, style, stage);
        ASSERT_TRUE(states.ok());
        for (const replayer::StateTensor& state : *states) {
          bytes += state.bytes;
        }
        worst = std::max(worst, bytes);
      }
      EXPECT_EQ(evaluator.MemoryFloor(plan), worst) << framework << " " << DescribePlan(plan);
    }
  }
}

// Equal rounds of long iterations are extrapolated; here they are all replayed.
TEST(PlanEvaluator, times_are_those_of_all_micro_batches) {
  int skipped = 0;
  int64_t batch = 48;
  for (const char* framework : {"megatron-core", "megatron-lm", "torchtitan", "nanotron"}) {
    SearchProblem problem = SmallProblem(framework);
    batch *= 2;  // longer jobs may change their pace within the iteration
    problem.global_batch_size = batch;
    const PlanEvaluator evaluator = *PlanEvaluator::Create(problem, "");
    const graph::ClusterSpec& cluster = evaluator.problem().cluster;
    for (const Plan& plan : PlansOn(16, evaluator, 40)) {
      const PlanEvaluator::Job job = evaluator.Describe(plan);
      graph::JobProgram program = *slicer::Synthesize(job.spec, job.style, slicer::Markers::kNone);
      const auto replay = [&] {
        return *replayer::StageEvaluator::Create(program)->Evaluate(
            replayer::WithCongestion(cluster, job.spec), {});
      };
      skipped += replay().skipped_rounds > 0 ? 1 : 0;
      for (graph::StageProgram& stage : program.stages) {
        stage.rounds.clear();
      }
      EXPECT_EQ(evaluator.Time(plan)->seconds,
                SecondsOfIteration(replay().iteration_ns, job.style, cluster.parameters))
          << framework << ": " << DescribePlan(plan);
    }
  }
  EXPECT_GT(skipped, 50);
}

// Memory() considers only a few stages.
TEST(PlanEvaluator, memory_is_that_of_the_worst_of_all_stages) {
  const PlanEvaluator evaluator = SmallEvaluator("megatron-core");
  for (const Plan& plan : PlansOn(64, evaluator, 40)) {
    const graph::JobSpec job = JobOf(evaluator.problem(), plan);
    Result<FrameworkStyle> style = FrameworkStyle::Create("megatron-core", "");
    ASSERT_TRUE(style.ok());
    int64_t worst = 0;
    for (int32_t stage = 0; stage < plan.parallel.pp; ++stage) {
      const auto memory = replayer::PredictStageMemory(
          job, style->Of(job), stage, replayer::MemoryOptionsOf(evaluator.problem().cluster));
      ASSERT_TRUE(memory.ok());
      worst = std::max(worst, memory->peak_reserved + replayer::OutsideAllocatorBytes(
                                                          evaluator.problem().cluster, job, stage));
    }
    EXPECT_EQ(evaluator.Memory(plan)->device_bytes, worst) << DescribePlan(plan);
  }
}

TEST(ModelSize, grows_with_the_budget) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  std::vector<PlanEvaluator> evaluators;
  for (const char* model : {"gpt3-13b", "gpt3-1.3b"}) {
    SearchProblem problem = SmallProblem("megatron-core");
    problem.model = LoadModel(model)->model;
    problem.cluster = *LoadCluster("a100-80-8x");
    problem.tokens = TokensOf(problem.model, 20);
    evaluators.push_back(*PlanEvaluator::Create(problem, ""));
  }
  EXPECT_NEAR(evaluators.back().problem().tokens, 26e9, 1e9);
  SearchOptions options;
  options.choices.gpus = {16};
  options.choices.tp = {1, 8};
  options.choices.cp = options.choices.vpp = {1};
  options.choices.micro_batch_sizes = {1};
  options.top = 1;
  std::string largest;
  for (const double hours : {10.0, 1000.0, 100'000.0}) {
    options.budget_gpu_hours = hours;
    const auto models = SearchSizes(evaluators, options, *session);
    ASSERT_TRUE(models.ok());
    EXPECT_EQ(models->front().name, "gpt3-1.3b");
    for (const SizedModel& model : *models) {
      EXPECT_TRUE(!model.trains() || model.result.best.front().cost.gpu_hours <= hours);
    }
    const std::string text = SizesText(*models, options);
    largest += text.substr(text.rfind('\n', text.size() - 2) + 1);
  }
  EXPECT_EQ(largest,
            "none of the models can be trained\n"
            "largest: gpt3-1.3b\n"
            "largest: gpt3-13b\n");
}

TEST(Sweep, changes_one_number_and_nothing_else) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  const PlanEvaluator evaluator = SmallEvaluator("megatron-core");
  SearchOptions options;
  options.choices.gpus = {16};
  options.choices.cp = options.choices.vpp = {1};
  options.choices.micro_batch_sizes = {2};
  options.top = 1;
  const Variation price = *ParseVariation("costs.gpu_hour_usd:1:3:3");
  const auto prices = Sweep(evaluator, options, price, *session);
  ASSERT_TRUE(prices.ok()) << prices.status().message();
  const double hours = prices->front().result.best.front().cost.gpu_hours;
  for (const SweepPoint& point : *prices) {
    EXPECT_DOUBLE_EQ(*point.result.best.front().cost.price_usd, point.value * hours);
  }
  EXPECT_EQ(prices->back().value, 3);
  const Variation memory = *ParseVariation("gpu.memory_bytes:1e9:4e10:2");
  const auto memories = Sweep(evaluator, options, memory, *session);
  ASSERT_TRUE(memories.ok());
  EXPECT_TRUE(memories->front().result.best.empty());
  EXPECT_FALSE(memories->back().result.best.empty());
  EXPECT_THAT(SweepText(evaluator, options, memory, *memories),
              HasSubstr("no plan is left; 189 of 360: no memory"));
  EXPECT_THAT(SweepSvg(memory, options, *memories), HasSubstr("<circle"));
  const EvaluatedPlan& best = memories->back().result.best.front();
  const std::string free =
      fmt::format("\"free_bytes\": {}", 40'000'000'000 - best.memory.device_bytes);
  EXPECT_THAT(SweepJson(evaluator, options, memory, *memories), HasSubstr(free));
  EXPECT_FALSE(Sweep(evaluator, options, *ParseVariation("net.none:1:2:2"), *session).ok());
  const auto refused =
      Sweep(evaluator, options, *ParseVariation("net.nic_bytes_per_s:1e9:1e300:2"), *session);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("net.nic_bytes_per_s at 1e+300"));
  for (const char* wrong : {"a:1:2", "a:0:2:2", "a:1:2:1", "a:1:x:3", "a:1:2:3:4"}) {
    EXPECT_FALSE(ParseVariation(wrong).ok()) << wrong;
  }
}

TEST(RunCost, follows_from_hours_and_the_clusters_costs) {
  SearchProblem problem = SmallProblem("megatron-core");
  problem.costs = {};
  problem.costs.State("gpu_hour_usd", 5, "USD/h");
  problem.costs.State("gpu_power_w", 1000, "W");
  problem.costs.State("pue", 1.5, "ratio");
  problem.tokens = 32.0 * 2048 * 3600;  // 3,600 iterations
  const RunCost cost = CostOfRun(problem, 16, 2.0);
  EXPECT_DOUBLE_EQ(cost.days, 2.0 / 24);
  EXPECT_DOUBLE_EQ(cost.gpu_hours, 32);
  EXPECT_DOUBLE_EQ(*cost.usd_per_hour, 80);
  EXPECT_DOUBLE_EQ(*cost.price_usd, 160);
  EXPECT_DOUBLE_EQ(*cost.energy_kwh, 48);
  EXPECT_FALSE(cost.carbon_kg.has_value());
  EXPECT_FALSE(cost.capital_usd.has_value());
}

TEST(SearchAnswer, keeps_best_and_front_in_any_order) {
  const auto plan = [](int32_t dp, double days, double price) {
    EvaluatedPlan evaluated;
    evaluated.plan.parallel.dp = dp;
    evaluated.cost.days = days;
    evaluated.cost.price_usd = price;
    return evaluated;
  };
  const std::vector<EvaluatedPlan> plans = {plan(1, 4, 1), plan(2, 3, 2), plan(3, 3, 2),
                                            plan(4, 2, 5), plan(5, 5, 5)};
  for (const bool reversed : {false, true}) {
    SearchAnswer answer(Objective::kCost, 2);
    for (size_t i = 0; i < plans.size(); ++i) {
      answer.Add(plans[reversed ? plans.size() - 1 - i : i]);
    }
    ASSERT_EQ(answer.best().size(), 2U);
    EXPECT_EQ(answer.best()[0].plan.parallel.dp, 1);
    EXPECT_EQ(answer.best()[1].plan.parallel.dp, 2);
    ASSERT_EQ(answer.front().size(), 3U);
    EXPECT_EQ(answer.front()[0].plan.parallel.dp, 4);
    EXPECT_EQ(answer.front()[1].plan.parallel.dp, 2);
    EXPECT_TRUE(answer.IsSettled(plan(9, 3.5, 2.5).cost));
    EXPECT_FALSE(answer.IsSettled(plan(9, 1.5, 9).cost));
  }
}

TEST(PlanSpace, counts_every_candidate_once) {
  const PlanEvaluator evaluator = SmallEvaluator("megatron-core");
  PlanChoices choices;
  choices.gpus = {48};
  const PlanSpace space = EnumeratePlans(evaluator.problem(), choices);
  int64_t rejected = 0;
  for (const auto& [reason, count] : space.rejected) {
    rejected += count;
  }
  EXPECT_EQ(space.candidates, rejected + static_cast<int64_t>(space.plans.size()));
  EXPECT_GT(rejected, 0);
  for (const Plan& plan : space.plans) {
    EXPECT_EQ(plan.gpus(), 48);
  }
}

TEST(Plan, is_read_as_it_is_written) {
  const Result<Plan> plan = ParsePlan("tp=8,pp=35,dp=8,mb=2,recompute=full,sp=on");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(DescribePlan(*plan),
            "tp 8, cp 1, pp 35, dp 8, vpp 1, micro-batch 2, recompute full, ZeRO 0, sequence "
            "parallel on");
  EXPECT_THAT(ParsePlan("tp=0").status().message(), HasSubstr("at least 1"));
  EXPECT_THAT(ParsePlan("tpp=2").status().message(), HasSubstr("unknown key 'tpp'"));
  EXPECT_THAT(ParsePlan("recompute=some").status().message(), HasSubstr("none, selective"));
  EXPECT_THAT(ParsePlan("tp=8,tp=4").status().message(), HasSubstr("gives tp twice"));
  EXPECT_THAT(ParsePlan("").status().message(), HasSubstr("--plan is empty"));
}

// FSDP shards at any ZeRO stage; if parameters stay gathered, all layers take memory at the loss,
// when most is held; the embedding is gathered anyway.
TEST(PlanSpace, of_a_framework_that_always_shards_has_each_plan_once) {
  const PlanEvaluator evaluator = SmallEvaluator("fsdp");
  const SearchProblem& problem = evaluator.problem();
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("dp=8,zero=1")), HasSubstr("by other names"));
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("dp=8,zero=2")), "");
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("pp=2,dp=4,zero=2")), "");
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("zero=0")), "");
  const int64_t kept = evaluator.Memory(*ParsePlan("dp=8,zero=2,recompute=full"))->allocated_bytes;
  const int64_t resharded =
      evaluator.Memory(*ParsePlan("dp=8,zero=3,recompute=full"))->allocated_bytes;
  const graph::ModelSpec& model = problem.model;
  const int64_t layers = graph::ModelParameters(model) - model.vocab * model.hidden;
  const int64_t gathered = 2 * layers;
  EXPECT_NEAR(static_cast<double>(kept - resharded), static_cast<double>(gathered),
              0.02 * static_cast<double>(gathered));
}

TEST(Plan, is_not_larger_than_any_cluster) {
  const SearchProblem problem = SmallProblem("megatron-core");
  EXPECT_THAT(ParsePlan("tp=65536,cp=65536,pp=65536,dp=65536").status().message(),
              HasSubstr("more than 1048576 GPUs"));
  EXPECT_THAT(ParsePlan("tp=1048576,pp=2").status().message(), HasSubstr("more than 1048576 GPUs"));
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("tp=1024,pp=1024")), HasSubstr("divide among tp"));
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("tp=2,pp=2,dp=2,zero=1")), "");
}

// 2^80 GPUs are not few.
TEST(PlanSpace, of_more_gpus_than_can_be_counted_is_empty) {
  PlanChoices choices;
  choices.tp = choices.cp = choices.pp = choices.dp = {1 << 20};
  EXPECT_EQ(EnumeratePlans(SmallProblem("megatron-core"), choices).candidates, 0);
}

TEST(SiteCosts, refuse_what_they_do_not_know) {
  const std::string head = "name = \"x\"\nsource = \"y\"\n[costs]\n";
  EXPECT_TRUE(ParseStated(head + "pue = { value = 1.1, unit = \"ratio\", source = \"a\", "
                                 "mark = \"assumed\" }\n",
                          "f", StatedTable::kCosts)
                  .ok());
  EXPECT_THAT(ParseStated(head + "pue = { value = 1.1, unit = \"W\", source = \"a\", mark = "
                                 "\"assumed\" }\n",
                          "f", StatedTable::kCosts)
                  .status()
                  .message(),
              HasSubstr("unit of pue is ratio"));
}

}  // namespace
}  // namespace prism::launch
