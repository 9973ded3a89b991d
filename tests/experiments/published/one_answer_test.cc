// One job has one time: what `prism search` says about a plan is what `prism bench accuracy` says
// about a published row of it, or the row names what sets them apart. Jobs are drawn by a seed.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "launch/plan/plan_evaluator.h"
#include "tests/experiments/published/one_row.h"

#include "experiments/published/predictor.h"
#include "experiments/published/search_difference.h"

namespace prism::launch {
namespace {

template <typename T>
const T& OneOf(const std::vector<T>& values, Rng* rng) {
  return values[static_cast<size_t>(rng->UniformInt(0, static_cast<int64_t>(values.size()) - 1))];
}

struct DrawnJob {
  Fields row;
  SearchProblem problem;
  std::string precision;
  Plan plan;
};

DrawnJob Draw(Rng* rng) {
  DrawnJob job;
  const bool ampere = rng->UniformInt(0, 1) == 0;
  job.problem.framework = OneOf<std::string>(
      {"megatron-lm", "megatron-deepspeed", "megatron-core", "fsdp", "torchtitan", "nanotron"},
      rng);
  job.precision = ampere && rng->UniformInt(0, 1) == 0 ? "fp16" : "bf16";
  job.problem.cluster = *LoadCluster(ampere ? "a100-80-8x" : "h100-8x");
  job.problem.global_batch_size = 64;
  graph::ModelSpec& model = job.problem.model;
  model.layers = static_cast<int32_t>(OneOf<int64_t>({8, 24, 48}, rng));
  model.hidden = OneOf<int64_t>({2048, 4096}, rng);
  model.heads = model.kv_heads = model.hidden / 128;
  model.ffn = 4 * model.hidden;
  model.vocab = 51200;
  model.seq_len = job.problem.seq_len = OneOf<int64_t>({1024, 2048, 4096}, rng);
  const bool sharded = job.problem.framework == "fsdp" || job.problem.framework == "torchtitan";
  graph::ParallelSizes& sizes = job.plan.parallel;
  sizes.tp = sharded ? 1 : OneOf<int32_t>({1, 2, 8}, rng);
  sizes.pp = sharded ? 1 : OneOf<int32_t>({1, 2, 4}, rng);
  sizes.dp = OneOf<int32_t>({1, 2, 8}, rng);
  job.plan.micro_batch_size = OneOf<int64_t>({1, 2}, rng);
  job.plan.recompute = OneOf<graph::Recompute>(
      {graph::Recompute::kNone, graph::Recompute::kSelective, graph::Recompute::kFull}, rng);
  job.plan.sequence_parallel = sizes.tp > 1 && rng->UniformInt(0, 1) == 0;
  job.plan.zero_stage = sharded ? 3 : 0;
  const std::string source = OneOf<std::string>({"arXiv 2205.05198", "a blog"}, rng);
  job.row = {{"id", "drawn"},
             {"source_key", "drawn"},
             {"source_ref", source},
             {"framework", job.problem.framework},
             {"arch", "gpt"},
             {"precision", job.precision},
             {"gpu", ampere ? "A100-80GB" : "H100-80GB"},
             {"recompute", graph::RecomputeName(job.plan.recompute)},
             {"sp", job.plan.sequence_parallel ? "yes" : "no"},
             {"iter_time_s", "1"}};
  const auto number = [&](const char* column, int64_t value) {
    job.row.emplace_back(column, std::to_string(value));
  };
  number("layers", model.layers);
  number("hidden", model.hidden);
  number("heads", model.heads);
  number("kv_heads", model.kv_heads);
  number("ffn", model.ffn);
  number("vocab", model.vocab);
  number("seq_len", model.seq_len);
  number("tp", sizes.tp);
  number("pp", sizes.pp);
  number("dp", sizes.dp);
  number("num_gpus", job.plan.gpus());
  number("gpus_per_node", 8);
  number("micro_batch", job.plan.micro_batch_size);
  number("global_batch", job.problem.global_batch_size);
  number("zero_stage", job.plan.zero_stage);
  number("vpp", 1);
  return job;
}

TEST(OneAnswer, search_and_published_rows_agree_or_say_why_not) {
  Rng rng(7, "one answer");
  int agreed = 0;
  for (int i = 0; i < 60; ++i) {
    const DrawnJob job = Draw(&rng);
    const std::vector<RowPlan> plans = {PlanRow(OneRow(job.row).row())};
    ASSERT_EQ(plans[0].cannot_predict, "");
    Predictor predictor(plans);
    const auto predicted = predictor.Predict({}, true);
    ASSERT_TRUE(predicted.ok()) << predicted.status().message();
    const auto evaluator = PlanEvaluator::Create(job.problem, job.precision);
    ASSERT_TRUE(evaluator.ok()) << evaluator.status().message();
    const auto time = evaluator->TimeWithStalls(job.plan);
    if (!time.ok()) {
      EXPECT_NE(predicted->front().failure, "");
      continue;
    }
    if (plans[0].differs_from_search.empty()) {
      ++agreed;
      EXPECT_DOUBLE_EQ(time->seconds, predicted->front().seconds)
          << job.problem.framework << " " << DescribePlan(job.plan) << " " << job.precision << " "
          << job.problem.cluster.name;
    }
  }
  EXPECT_GE(agreed, 20);
}

// Selene's network and 2022's kernels: measured 13.750 s.
TEST(OneAnswer, holds_for_a_published_run) {
  Fields row = Gpt175B();
  for (const auto& [column, value] : Fields{{"dp", "1"},
                                            {"num_gpus", "64"},
                                            {"vpp", "3"},
                                            {"sp", "yes"},
                                            {"kv_heads", "96"},
                                            {"ffn", "49152"},
                                            {"recompute", "selective"},
                                            {"source_ref", "arXiv 2205.05198"},
                                            {"interconnect", "Selene"}}) {
    Set(&row, column, value);
  }
  const std::vector<RowPlan> plans = {PlanRow(OneRow(row).row())};
  EXPECT_THAT(plans[0].differs_from_search,
              ::testing::ElementsAre("gpus/a100-80 with networks/selene, which no cluster preset "
                                     "has"));
  Predictor predictor(plans);
  SearchProblem problem;
  problem.framework = "megatron-lm";
  problem.model = plans[0].job.model;
  problem.global_batch_size = 64;
  problem.seq_len = 2048;
  problem.cluster = *ComposeCluster(
      {"nccl/2.30", "spread/published", "gpus/a100-80", "frameworks/eager", "networks/selene"}, {});
  problem.cluster.gpus_per_node = 8;
  const auto evaluator = PlanEvaluator::Create(problem, "fp16");
  const Plan plan = *ParsePlan("tp=8,pp=8,vpp=3,mb=1,recompute=selective,sp=on");
  EXPECT_NEAR(evaluator->Time(plan)->seconds, (*predictor.Predict({}, false))[0].seconds, 1e-9);
  EXPECT_NEAR(evaluator->Time(plan)->seconds, 13.75, 0.03);
}

}  // namespace
}  // namespace prism::launch
