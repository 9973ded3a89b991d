// Searches over plans of a mixture of experts.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/job/nccl_memory.h"
#include "launch/plan/search.h"
#include "replayer/memory/device_memory.h"
#include "replayer/memory/stage_memory.h"
#include "tests/launch/plan/small_search.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;

// Twelve layers, of which the first three are dense.
SearchProblem ProblemOfExperts(const std::string& framework) {
  SearchProblem problem = SmallProblem(framework);
  problem.model.layers = 12;
  problem.model.block = graph::BlockKind::kLlama;
  problem.model.kv_heads = problem.model.heads;
  problem.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 1024, .shared_expert_ffn = 1024};
  problem.model.moe.dense_layers = 3;
  return problem;
}

PlanEvaluator EvaluatorOf(const SearchProblem& problem) {
  Result<PlanEvaluator> evaluator = PlanEvaluator::Create(problem, "");
  PRISM_CHECK_MSG(evaluator.ok(), evaluator.status().message());
  return *std::move(evaluator);
}

TEST(SearchOfExperts, knows_which_degrees_there_are) {
  const SearchProblem dense = SmallProblem("megatron-core");
  EXPECT_THAT(WhyNoPlan(dense, *ParsePlan("dp=8,ep=8")), HasSubstr("ep without experts"));
  SearchProblem problem = ProblemOfExperts("megatron-core");
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("dp=8,ep=8")), "");
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("tp=2,dp=4,ep=8,sp=on")), "");
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("dp=6,ep=3")), HasSubstr("experts do not divide"));
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("dp=4,ep=8")), HasSubstr("ranks of a stage"));
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("tp=2,dp=4,ep=8")),
              HasSubstr("need sequence parallelism"));
  // A feed-forward size that no layer has need not be divisible.
  problem.model.ffn = 7;
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("tp=2,sp=on")), HasSubstr("do not divide among tp"));
  problem.model.moe.dense_layers = 0;
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("tp=2,sp=on")), "");
}

TEST(SearchOfExperts, intervals_widen_where_how_tokens_travel_is_assumed) {
  JobTime time;
  time.seconds = time.stalled_s = 1;
  const auto width = [&](const SearchProblem& problem) {
    const TimeInterval interval = EvaluatorOf(problem).IntervalOf(time);
    return interval.high_s - interval.low_s;
  };
  EXPECT_GT(width(ProblemOfExperts("megatron-core")), width(SmallProblem("megatron-core")));
  EXPECT_EQ(width(ProblemOfExperts("torchtitan")), width(SmallProblem("torchtitan")));
}

TEST(SearchOfExperts, leaving_plans_out_never_changes_the_answer) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  for (const char* framework : {"megatron-core", "torchtitan"}) {
    const PlanEvaluator evaluator = EvaluatorOf(ProblemOfExperts(framework));
    SearchOptions options;
    options.choices.gpus = {16};
    options.choices.cp = {1};
    options.choices.vpp = {1, 2};
    options.choices.micro_batch_sizes = {1, 2};
    options.choices.recompute = {graph::Recompute::kNone, graph::Recompute::kFull};
    options.top = 3;
    options.threads = 2;
    const Result<SearchResult> pruned = Search(evaluator, options, *session);
    options.exhaustive = true;
    const Result<SearchResult> whole = Search(evaluator, options, *session);
    ASSERT_TRUE(pruned.ok() && whole.ok());
    EXPECT_TRUE(whole->not_modelled.empty()) << whole->not_modelled.begin()->first;
    EXPECT_GT(pruned->bounded, 20);
    ASSERT_EQ(pruned->best.size(), 3U);
    for (size_t i = 0; i < pruned->best.size(); ++i) {
      EXPECT_EQ(pruned->best[i].plan, whole->best[i].plan) << DescribePlan(whole->best[i].plan);
    }
    std::set<int32_t> degrees;
    for (const EvaluatedPlan& plan : whole->best) {
      degrees.insert(plan.plan.parallel.ep);
    }
    EXPECT_EQ(degrees, (std::set<int32_t>{1, 2, 4, 8}));
  }
}

TEST(SearchOfExperts, floors_are_below_time_and_memory) {
  for (const char* framework : {"megatron-core", "torchtitan"}) {
    SearchProblem problem = ProblemOfExperts(framework);
    // Layers with a wide feed-forward, after cheap ones.
    problem.model.ffn = 256;
    const PlanEvaluator evaluator = EvaluatorOf(problem);
    PlanChoices choices;
    choices.gpus = {32};
    for (const Plan& plan : DrawPlans(evaluator, choices, 40, Rng(5, "experts"))) {
      const Result<JobTime> time = evaluator.Time(plan);
      ASSERT_TRUE(time.ok()) << DescribePlan(plan) << ": " << time.status().message();
      EXPECT_LE(evaluator.TimeFloor(plan), time->seconds) << DescribePlan(plan);
      EXPECT_LE(evaluator.MemoryFloor(plan), evaluator.Memory(plan)->device_bytes);
    }
  }
}

// The first stages may be dense, and keep less than those after them.
TEST(SearchOfExperts, memory_is_that_of_the_worst_of_all_stages) {
  SearchProblem problem = ProblemOfExperts("megatron-core");
  problem.model.moe.expert_ffn = 8192;
  const PlanEvaluator evaluator = EvaluatorOf(problem);
  const FrameworkStyle styles = *FrameworkStyle::Create("megatron-core", "");
  int behind_the_second = 0;
  for (const char* text : {"pp=12,dp=2,zero=1,recompute=full", "pp=6,dp=4,ep=4,zero=1",
                           "pp=4,dp=8,ep=8,zero=1", "pp=12,dp=8,ep=2,zero=0,recompute=full"}) {
    const Plan plan = *ParsePlan(text);
    const graph::JobSpec job = JobOf(evaluator.problem(), plan);
    int64_t worst = 0;
    int32_t worst_stage = 0;
    for (int32_t stage = 0; stage < plan.parallel.pp; ++stage) {
      const auto memory = replayer::PredictStageMemory(
          job, styles.Of(job), stage, replayer::MemoryOptionsOf(evaluator.problem().cluster));
      ASSERT_TRUE(memory.ok());
      const int64_t bytes = memory->peak_reserved + replayer::OutsideAllocatorBytes(
                                                        evaluator.problem().cluster, job, stage);
      worst_stage = bytes > worst ? stage : worst_stage;
      worst = std::max(worst, bytes);
    }
    EXPECT_EQ(evaluator.Memory(plan)->device_bytes, worst) << text;
    behind_the_second += worst_stage > 1 && worst_stage < plan.parallel.pp - 1 ? 1 : 0;
  }
  EXPECT_GT(behind_the_second, 0);
}

// On 16 GPUs with ep 8 each rank has seven peers in its node and a communicator of two that hold
// the same experts, one in each node.
TEST(SearchOfExperts, communicators_of_experts_take_device_memory) {
  const SearchProblem problem = ProblemOfExperts("megatron-core");
  graph::JobSpec job = JobOf(problem, *ParsePlan("dp=16,ep=8"));
  const int64_t with_experts = replayer::OutsideAllocatorBytes(problem.cluster, job, 0);
  job.model.moe = {};
  const int64_t dense = replayer::OutsideAllocatorBytes(problem.cluster, job, 0);
  const auto whole = [&](const char* key) {
    return static_cast<int64_t>(problem.cluster.parameters.Value(key));
  };
  const graph::NcclMemoryModel nccl = {.collective_channels = whole("nccl.channels.collective"),
                                       .p2p_channels = whole("nccl.channels.p2p"),
                                       .p2p_channels_per_peer = whole("nccl.channels.p2p_per_peer"),
                                       .granularity_bytes = whole("nccl.granularity_bytes"),
                                       .reads_peers = true};
  const graph::CommunicatorShape experts = {.size = 8, .local_ranks = 8, .node_count = 1};
  const graph::CommunicatorShape replicas = {.size = 2, .local_ranks = 1, .node_count = 2};
  EXPECT_EQ(with_experts - dense, nccl.SetupBytes(experts) + nccl.RingBytes(experts) +
                                      7 * (nccl.PeerBytes(true) + nccl.PeerBytes(false)) +
                                      nccl.SetupBytes(replicas) + nccl.RingBytes(replicas));
}

// The 61 layers of DeepSeek-V3 fill the stages of a pipeline from the front.
TEST(SearchOfExperts, layers_of_latent_attention_need_not_divide) {
  SearchProblem problem = SmallProblem("megatron-core");
  problem.model = LoadModel("deepseek-v3")->model;
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("pp=16,dp=8,ep=8")), "");
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("pp=2,dp=8,ep=8,vpp=8")), "");
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("pp=32,dp=8,ep=8")), HasSubstr("layers do not divide"));
  problem.framework = "torchtitan";
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("pp=16,dp=8,ep=8,zero=2")),
              HasSubstr("layers do not divide"));
}

}  // namespace
}  // namespace prism::launch
