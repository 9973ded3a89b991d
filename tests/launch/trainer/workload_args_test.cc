// The command line of the workload: what the launcher writes, the program reads.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/trainer/args.h"

namespace prism::launch {
namespace {

// No field has its default value.
graph::JobSpec UnusualJob() {
  graph::JobSpec job;
  job.model.block = graph::BlockKind::kLlama;
  job.model.layers = 24;
  job.model.hidden = 1024;
  job.model.heads = 16;
  job.model.kv_heads = 8;
  job.model.ffn = 2816;
  job.model.vocab = 32000;
  job.model.tied_embeddings = false;
  job.parallel = {.tp = 4, .cp = 1, .dp = 3, .pp = 2, .ep = 1, .vpp = 3};
  job.sequence_parallel = false;
  job.micro_batch_size = 2;
  job.global_batch_size = 24;
  job.seq_len = 512;
  job.recompute = graph::Recompute::kSelective;
  job.zero_stage = 0;
  job.compute_dtype = DataType::kFloat32;
  job.seed = 11;
  return job;
}

// The arguments with another value of the flag.
std::vector<std::string> With(std::vector<std::string> args,
                              const std::string& flag,
                              const std::string& value) {
  *(std::ranges::find(args, flag) + 1) = value;
  return args;
}

TEST(WorkloadArgs, what_is_written_is_read_back) {
  const graph::JobSpec job = UnusualJob();
  const Result<WorkloadConfig> config = ParseWorkloadArgs(WorkloadArgs(job, 5));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->iterations, 5);
  EXPECT_EQ(config->device, DeviceKind::kCuda);
  EXPECT_EQ(config->job.parallel, job.parallel);
  EXPECT_EQ(WorkloadArgs(config->job, config->iterations), WorkloadArgs(job, 5));
  EXPECT_EQ(config->job.model.kv_heads, 8);
  EXPECT_EQ(config->job.recompute, graph::Recompute::kSelective);
  EXPECT_EQ(config->job.compute_dtype, DataType::kFloat32);
  EXPECT_FALSE(config->job.model.tied_embeddings);
}

graph::JobSpec ExpertJob() {
  graph::JobSpec job = UnusualJob();
  job.model.moe = {
      .experts = 8, .topk = 2, .expert_ffn = 64, .shared_expert_ffn = 128, .dense_layers = 3};
  job.parallel.dp = 6;
  job.parallel.ep = 2;
  job.parallel.etp = 4;
  job.sequence_parallel = true;
  job.global_batch_size = 48;
  return job;
}

TEST(WorkloadArgs, experts_are_read_back) {
  const graph::JobSpec job = ExpertJob();
  const Result<WorkloadConfig> config = ParseWorkloadArgs(WorkloadArgs(job, 5));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->job.parallel, job.parallel);
  EXPECT_EQ(config->job.model.moe, job.model.moe);
}

TEST(WorkloadArgs, refuses_experts_that_it_cannot_run) {
  const std::vector<std::string> good = WorkloadArgs(ExpertJob(), 3);
  const auto message = [&good](const std::string& flag, const std::string& value) {
    const Result<WorkloadConfig> config = ParseWorkloadArgs(With(good, flag, value));
    return config.ok() ? "" : config.status().message();
  };
  EXPECT_THAT(message("--ep", "3"), testing::HasSubstr("experts 8"));
  EXPECT_THAT(message("--ep", "4"), testing::HasSubstr("dp 6"));
  EXPECT_THAT(message("--etp", "1"), testing::HasSubstr("divided over tp 4"));
  EXPECT_THAT(message("--topk", "9"), testing::HasSubstr("topk 9"));
  EXPECT_THAT(message("--expert-ffn", "66"), testing::HasSubstr("expert-ffn 66"));
  EXPECT_THAT(message("--shared-expert-ffn", "66"), testing::HasSubstr("shared-expert-ffn 66"));
  EXPECT_THAT(message("--sequence-parallel", "off"), testing::HasSubstr("sequence parallelism"));
  EXPECT_THAT(message("--block", "gpt"), testing::HasSubstr("llama block"));
  EXPECT_THAT(message("--cp", "2"), testing::HasSubstr("context parallelism"));
  EXPECT_THAT(message("--zero", "3"), testing::HasSubstr("zero 3: experts cannot"));
  EXPECT_THAT(message("--dense-layers", "0"), "");
}

TEST(WorkloadArgs, coordinates_follow_the_rank_order) {
  WorkloadConfig config;
  config.job.parallel = {.tp = 4, .cp = 2, .dp = 3, .pp = 2, .ep = 1};
  config.rank = Rank(4 * 2 * 3 * 1 + 4 * 2 * 2 + 4 * 1 + 3);
  EXPECT_EQ(config.tp_rank(), 3);
  EXPECT_EQ(config.cp_rank(), 1);
  EXPECT_EQ(config.dp_rank(), 2);
  EXPECT_EQ(config.pp_rank(), 1);
}

TEST(WorkloadArgs, refuses_what_it_cannot_run) {
  const std::vector<std::string> good = WorkloadArgs(UnusualJob(), 3);
  const auto message = [](const std::vector<std::string>& args) {
    const Result<WorkloadConfig> config = ParseWorkloadArgs(args);
    EXPECT_FALSE(config.ok());
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
    return config.status().message();
  };
  EXPECT_THAT(message({"--colour", "1"}), testing::HasSubstr("--colour"));
  EXPECT_THAT(message({"--tp"}), testing::HasSubstr("--tp needs a value"));
  EXPECT_THAT(message(With(good, "--tp", "four")),
              testing::HasSubstr("--tp: 'four' is not a whole number"));
  EXPECT_THAT(message(With(good, "--block", "rnn")),
              testing::HasSubstr("'rnn' is unknown; choose one of gpt, llama"));
  EXPECT_THAT(message(With(good, "--tp", "7")), testing::HasSubstr("kv-heads 8"));
  EXPECT_THAT(message(With(good, "--layers", "25")), testing::HasSubstr("layers 25"));
  EXPECT_THAT(message(With(good, "--cp", "3")), testing::HasSubstr("tp * cp"));
  EXPECT_THAT(message(With(good, "--ep", "2")), testing::HasSubstr("the model has no experts"));
  EXPECT_THAT(message(With(good, "--zero", "4")), testing::HasSubstr("zero 4"));
  EXPECT_THAT(message(With(good, "--global-batch-size", "18")),
              testing::HasSubstr("micro-batches"));
  EXPECT_THAT(message(With(good, "--micro-batch-size", "0")),
              testing::HasSubstr("global-batch-size"));
}

}  // namespace
}  // namespace prism::launch
