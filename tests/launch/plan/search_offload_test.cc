// prism search with a second memory tier: bounds are bounds, skipped plans never change the answer,
// and the reported memory of both tiers is right.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "launch/plan/offloaded_job.h"
#include "launch/plan/search.h"
#include "launch/plan/search_report.h"
#include "replayer/memory/device_memory.h"
#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/model_states.h"
#include "tests/launch/plan/small_search.h"

namespace prism::launch {
namespace {

using graph::Offload;
using ::testing::HasSubstr;

constexpr Offload kOffloads[] = {Offload::kNone, Offload::kOptimizer, Offload::kActivations,
                                 Offload::kAll};

std::vector<Plan> PlansWithOffload(const PlanEvaluator& evaluator, size_t count) {
  PlanChoices choices;
  choices.gpus = {16};
  choices.cp = {1};
  choices.offload = {Offload::kOptimizer, Offload::kActivations, Offload::kAll};
  return DrawPlans(evaluator, choices, count, Rng(11, "offload test"));
}

TEST(SearchOffload, leaving_plans_out_never_changes_the_answer) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  Rng rng(5, "small spaces with offload");
  int64_t left_out = 0;
  bool offloaded = false;
  for (int space = 0; space < 3; ++space) {
    SearchProblem problem = SmallProblem(space % 2 == 0 ? "megatron-core" : "torchtitan");
    // So small that plans without offload lack memory.
    problem.cluster.gpu.memory_bytes = int64_t{6 + 2 * space} << 30;
    problem.host.State("gib_hour_usd", 0.05, "USD/h");
    const PlanEvaluator evaluator = *PlanEvaluator::Create(std::move(problem), "");
    SearchOptions options;
    options.choices.gpus = {8};
    options.choices.tp = {1, static_cast<int32_t>(2 << rng.UniformInt(0, 1))};
    options.choices.vpp = {1, 2};
    options.choices.cp = {1};
    options.choices.micro_batch_sizes = {1, 4};
    options.choices.recompute = {graph::Recompute::kNone};
    options.choices.offload.assign(std::begin(kOffloads), std::end(kOffloads));
    options.objective = static_cast<Objective>(space);
    options.top = 3;
    options.threads = 2;
    const Result<SearchResult> pruned = Search(evaluator, options, *session);
    options.exhaustive = true;
    const Result<SearchResult> whole = Search(evaluator, options, *session);
    ASSERT_TRUE(pruned.ok() && whole.ok());
    left_out += pruned->bounded;
    const auto seen = [](const SearchResult& result) {
      return result.evaluated + result.bounded + result.shortage.plans + result.host_shortage.plans;
    };
    EXPECT_EQ(seen(*pruned), seen(*whole));
    ASSERT_EQ(pruned->best.size(), 3U);
    for (size_t i = 0; i < pruned->best.size(); ++i) {
      EXPECT_EQ(pruned->best[i].plan, whole->best[i].plan) << DescribePlan(whole->best[i].plan);
      EXPECT_EQ(pruned->best[i].time.seconds, whole->best[i].time.seconds);
      EXPECT_EQ(pruned->best[i].memory, whole->best[i].memory);
      offloaded = offloaded || pruned->best[i].plan.offload != Offload::kNone;
    }
    ASSERT_EQ(pruned->front.size(), whole->front.size());
    for (size_t i = 0; i < pruned->front.size(); ++i) {
      EXPECT_EQ(pruned->front[i].plan, whole->front[i].plan);
    }
  }
  EXPECT_GT(left_out, 50);
  EXPECT_TRUE(offloaded);
}

TEST(SearchOffload, floors_are_below_time_and_memory) {
  for (const char* framework : {"megatron-core", "torchtitan"}) {
    SearchProblem problem = SmallProblem(framework);
    problem.host.State("link_bytes_per_s", 2e9, "byte/s");
    const PlanEvaluator evaluator = *PlanEvaluator::Create(std::move(problem), "");
    double tightest = 0;
    for (const Plan& plan : PlansWithOffload(evaluator, 30)) {
      const Result<JobTime> time = evaluator.Time(plan);
      ASSERT_TRUE(time.ok()) << DescribePlan(plan) << ": " << time.status().message();
      EXPECT_LE(evaluator.TimeFloor(plan), time->seconds) << DescribePlan(plan);
      tightest = std::max(tightest, evaluator.TimeFloor(plan) / time->seconds);
      const Result<PlanMemory> memory = evaluator.Memory(plan);
      ASSERT_TRUE(memory.ok());
      EXPECT_LE(evaluator.MemoryFloor(plan), memory->device_bytes) << DescribePlan(plan);
    }
    EXPECT_GT(tightest, 0.6) << framework;
  }
}

// What leaves the device is on the host, and the device holds no more than without offload.
TEST(SearchOffload, moves_memory_from_one_tier_to_the_other) {
  const PlanEvaluator evaluator = *PlanEvaluator::Create(SmallProblem("megatron-core"), "");
  Plan plan = *ParsePlan("tp=2,pp=4,dp=2,mb=2,zero=1,sp=on");
  const graph::JobSpec job = JobOf(evaluator.problem(), plan);
  const graph::TrainingStyle style = FrameworkStyle::Create("megatron-core", "")->Of(job);
  int64_t moments = 0;
  const auto states = replayer::StatesOfStage(job, style, 0);
  ASSERT_TRUE(states.ok());
  for (const replayer::StateTensor& state : *states) {
    moments += state.moment ? state.bytes : 0;
  }
  // The first stage holds four micro-batches of six layers.
  const int64_t saved = 4 * 6 * replayer::LayerTensors(job, style, 0).saved_bytes();
  const PlanMemory none = *evaluator.Memory(plan);
  EXPECT_EQ(none.host_bytes, 0);
  plan.offload = Offload::kOptimizer;
  const PlanMemory optimizer = *evaluator.Memory(plan);
  EXPECT_EQ(optimizer.host_bytes, moments);
  EXPECT_NEAR(static_cast<double>(none.allocated_bytes - optimizer.allocated_bytes),
              static_cast<double>(moments), 1 << 20);
  plan.offload = Offload::kActivations;
  const PlanMemory activations = *evaluator.Memory(plan);
  EXPECT_EQ(activations.host_bytes, saved);
  EXPECT_LT(activations.allocated_bytes, none.allocated_bytes - saved / 2);
  plan.offload = Offload::kAll;
  EXPECT_EQ(evaluator.Memory(plan)->host_bytes, moments + saved);
}

TEST(SearchOffload, memory_is_that_of_the_worst_of_all_stages) {
  const PlanEvaluator evaluator = *PlanEvaluator::Create(SmallProblem("megatron-core"), "");
  const graph::ClusterSpec& cluster = evaluator.problem().cluster;
  const FrameworkStyle styles = *FrameworkStyle::Create("megatron-core", "");
  for (const Plan& plan : PlansWithOffload(evaluator, 40)) {
    const graph::JobSpec job = JobOf(evaluator.problem(), plan);
    const graph::TrainingStyle& style = styles.Of(job);
    const auto tiers = HostTiersOf(job, style, plan.offload);
    ASSERT_TRUE(tiers.ok());
    int64_t device = 0;
    int64_t host = 0;
    for (int32_t stage = 0; stage < plan.parallel.pp; ++stage) {
      replayer::StageMemoryOptions options = replayer::MemoryOptionsOf(cluster);
      options.host = (*tiers)[static_cast<size_t>(stage)];
      const auto memory = replayer::PredictStageMemory(job, style, stage, options);
      ASSERT_TRUE(memory.ok());
      device = std::max(
          device, memory->peak_reserved + replayer::OutsideAllocatorBytes(cluster, job, stage));
      host = std::max(host, memory->host_bytes);
    }
    const PlanMemory memory = *evaluator.Memory(plan);
    EXPECT_EQ(memory.device_bytes, device) << DescribePlan(plan);
    EXPECT_EQ(memory.host_bytes, host) << DescribePlan(plan);
  }
}

TEST(SearchOffload, a_faster_link_is_never_slower_and_a_dear_host_costs) {
  double before = 0;
  for (const double rate : {1e12, 5e10, 5e9, 5e8}) {
    SearchProblem problem = SmallProblem("megatron-core");
    problem.host.State("link_bytes_per_s", rate, "byte/s");
    const PlanEvaluator evaluator = *PlanEvaluator::Create(std::move(problem), "");
    const double seconds =
        evaluator.Time(*ParsePlan("tp=2,pp=2,dp=4,mb=2,zero=1,offload=all"))->seconds;
    EXPECT_GE(seconds, before) << rate;
    before = seconds;
  }
  SearchProblem problem = SmallProblem("megatron-core");
  problem.costs.State("gpu_hour_usd", 2, "USD/h");
  problem.host.State("gib_hour_usd", 0.25, "USD/h");
  const RunCost cost = CostOfRun(problem, 8, 1, int64_t{4} << 30);
  EXPECT_DOUBLE_EQ(*cost.usd_per_hour, 8 * 3.0);
  EXPECT_DOUBLE_EQ(*cost.price_usd, 3 * cost.gpu_hours);
}

TEST(SearchOffload, too_little_host_memory_is_said) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  SearchProblem problem = SmallProblem("megatron-core");
  problem.host.State("bytes_per_gpu", 1 << 20, "byte");
  const PlanEvaluator evaluator = *PlanEvaluator::Create(std::move(problem), "");
  SearchOptions options;
  options.choices.gpus = {8};
  options.choices.tp = {8};
  options.choices.cp = options.choices.vpp = {1};
  options.choices.zero = {0};
  options.choices.offload = {Offload::kActivations};
  const Result<SearchResult> result = Search(evaluator, options, *session);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->best.empty());
  EXPECT_GT(result->host_shortage.plans, 0);
  EXPECT_THAT(SearchText(evaluator, options, *result), HasSubstr("GiB of host memory"));

  // A given plan is reported to lack host memory, with what it leaves on the device.
  options.given = {*ParsePlan("tp=8,offload=activations")};
  const Result<SearchResult> given = Search(evaluator, options, *session);
  ASSERT_TRUE(given.ok()) << given.status().message();
  EXPECT_FALSE(given->given.front().fits);
  const std::string text = SearchText(evaluator, options, *given);
  EXPECT_THAT(text, HasSubstr(" short)"));
  EXPECT_THAT(text, testing::Not(testing::ContainsRegex(" -[0-9]")));
  const int64_t free = (1 << 20) - given->given.front().memory.host_bytes;
  EXPECT_THAT(SearchJson(evaluator, options, *given),
              HasSubstr(fmt::format("\"host_free_bytes\": {}", free)));
  EXPECT_THAT(SearchCsv(evaluator, *given), HasSubstr(fmt::format(",no,{},", free)));
}

TEST(HostMemory, refuses_what_it_does_not_know) {
  const std::string head = "name = \"x\"\nsource = \"y\"\n[host_memory]\n";
  const auto with = [&](const std::string& key, const std::string& value) {
    return ParseStated(head + key + " = { value = " + value +
                           ", unit = \"byte\", source = \"a\", mark = \"assumed\" }\n",
                       "f", StatedTable::kHostMemory);
  };
  EXPECT_EQ(with("bytes_per_gpu", "5")->Value("bytes_per_gpu"), 5);
  EXPECT_THAT(with("bytes", "5").status().message(), HasSubstr("[host_memory] has no key 'bytes'"));
  EXPECT_THAT(with("link_bytes_per_s", "5").status().message(), HasSubstr("is byte/s, not byte"));
  EXPECT_THAT(with("bytes_per_gpu", "-5").status().message(), HasSubstr("must be 0 or more"));
}

}  // namespace
}  // namespace prism::launch
