// The workload computes what it should: every layout of four ranks (threads, float32 on the CPU)
// gives the losses and gradient norms of the undistributed model.
#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "launch/trainer/trainer.h"
#include "shim/nccl/exchange_arena.h"
#include "tests/launch/trainer/exchange_backend.h"

namespace prism::launch {
namespace {

constexpr size_t kArenaBytes = 256UL << 20U;
constexpr int32_t kStallSeconds = 20;  // a step takes milliseconds
constexpr int32_t kSteps = 3;
constexpr double kTolerance = 1e-5;  // relative

struct Layout {
  std::string name;
  graph::ParallelSizes sizes;
  bool sequence_parallel = true;
  int32_t zero_stage = 1;
  graph::Recompute recompute = graph::Recompute::kNone;
  graph::BlockKind block = graph::BlockKind::kGpt;
  graph::MoeShape moe = {};
};

// Tokens beyond an expert's capacity are dropped: on average half of a rank's tokens choose it.
constexpr graph::MoeShape kExperts = {.experts = 4, .topk = 2, .expert_ffn = 48};

std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.name;
}

// A model whose vocabulary needs no padding for tp 1 and 2, so that all layouts have the same.
WorkloadConfig Config(const Layout& layout, uint32_t rank) {
  WorkloadConfig config;
  graph::ModelSpec& model = config.job.model;
  const bool is_gpt = layout.block == graph::BlockKind::kGpt;
  model.block = layout.block;
  model.layers = 4;
  model.hidden = 32;
  model.heads = 4;
  model.kv_heads = is_gpt ? 4 : 2;
  model.ffn = 64;
  model.vocab = 256;
  model.tied_embeddings = is_gpt;
  model.moe = layout.moe;
  config.job.parallel = layout.sizes;
  config.job.parallel.etp = layout.moe.experts > 0 ? layout.sizes.tp : 1;
  config.job.sequence_parallel = layout.sequence_parallel;
  config.job.micro_batch_size = 1;
  config.job.global_batch_size = 8;
  config.job.seq_len = 16;
  config.job.recompute = layout.recompute;
  config.job.zero_stage = layout.zero_stage;
  config.job.compute_dtype = DataType::kFloat32;
  config.job.seed = 7;
  config.device = DeviceKind::kCpu;
  config.rank = Rank(rank);
  return config;
}

std::vector<IterationResult> TrainRank(const WorkloadConfig& config, shim::Exchange* exchange) {
  const ParallelGroups groups = MakeParallelGroups(config, [exchange](const GroupSpec& spec) {
    return c10::make_intrusive<ExchangeBackend>(spec, exchange);
  });
  Trainer trainer(config, groups);
  std::vector<IterationResult> results;
  for (int32_t step = 0; step < kSteps; ++step) {
    results.push_back(trainer.RunIteration(step));
  }
  return results;
}

// Results of all ranks, each in a thread.
std::vector<std::vector<IterationResult>> TrainAll(const Layout& layout) {
  shim::ExchangeArena arena = shim::ExchangeArena::Create(kArenaBytes);
  arena.set_stall_seconds(kStallSeconds);
  shim::Memory memory;
  shim::Exchange exchange(&arena, &memory);
  const auto world = static_cast<uint32_t>(layout.sizes.world_size());
  std::vector<std::vector<IterationResult>> results(world);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      try {
        results[rank] = TrainRank(Config(layout, rank), &exchange);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        arena.Abort("a rank failed");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return results;
}

std::vector<IterationResult> Undistributed(const Layout& layout) {
  return TrainAll({.name = "undistributed", .sizes = {}, .block = layout.block, .moe = layout.moe})
      .front();
}

void ExpectNear(const IterationResult& result, const IterationResult& expected) {
  EXPECT_NEAR(result.grad_norm, expected.grad_norm, kTolerance * expected.grad_norm);
  if (result.loss.has_value() && expected.loss.has_value()) {
    EXPECT_NEAR(*result.loss, *expected.loss, kTolerance * *expected.loss);
  }
}

class WorkloadMath : public testing::TestWithParam<Layout> {};

TEST_P(WorkloadMath, equals_the_undistributed_run) {
  const std::vector<IterationResult> reference = Undistributed(GetParam());
  ASSERT_EQ(reference.size(), static_cast<size_t>(kSteps));
  const std::vector<std::vector<IterationResult>> ranks = TrainAll(GetParam());
  int with_loss = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_EQ(ranks[rank].size(), reference.size());
    for (size_t step = 0; step < reference.size(); ++step) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << " step " << step);
      ExpectNear(ranks[rank][step], reference[step]);
      with_loss += ranks[rank][step].loss.has_value() ? 1 : 0;
    }
  }
  EXPECT_EQ(with_loss, kSteps * GetParam().sizes.tp * GetParam().sizes.cp * GetParam().sizes.dp);
}

// A tensor-parallel rank routes its part of the sequence, so what experts drop depends on tp, but
// not on the placement of experts.
TEST(WorkloadMath, experts_of_a_tensor_parallel_job_equal_those_of_one_replica) {
  const Layout one = {
      .name = "tp2", .sizes = {.tp = 2}, .block = graph::BlockKind::kLlama, .moe = kExperts};
  Layout spread = one;
  spread.sizes.dp = spread.sizes.ep = 2;
  const std::vector<IterationResult> reference = TrainAll(one).front();
  const std::vector<IterationResult> results = TrainAll(spread).front();
  for (size_t step = 0; step < reference.size(); ++step) {
    SCOPED_TRACE(step);
    ExpectNear(results[step], reference[step]);
  }
}

// A fresh model knows nothing: log(256) per token. Steps on the same data have to lower the loss by
// far more than the tolerance, else the comparison would say nothing about the optimizer.
TEST(WorkloadMath, loss_starts_uninformed_and_falls) {
  const WorkloadConfig config = Config({.name = "undistributed", .sizes = {}}, 0);
  const ParallelGroups groups = MakeParallelGroups(config, nullptr);
  Trainer trainer(config, groups);
  const double before = *trainer.RunIteration(0).loss;
  trainer.RunIteration(0);
  const double after = *trainer.RunIteration(0).loss;
  EXPECT_NEAR(before, std::log(256.0), 0.1);
  EXPECT_LT(after, before * (1 - 10 * kTolerance));
}

INSTANTIATE_TEST_SUITE_P(
    layouts,
    WorkloadMath,
    testing::Values(
        Layout{.name = "tp2_pp2", .sizes = {.tp = 2, .pp = 2}},
        Layout{.name = "tp2_dp2", .sizes = {.tp = 2, .dp = 2}},
        Layout{.name = "pp2_dp2", .sizes = {.dp = 2, .pp = 2}},
        Layout{.name = "tp2_pp2_zero0_without_sequence_parallel",
               .sizes = {.tp = 2, .pp = 2},
               .sequence_parallel = false,
               .zero_stage = 0},
        Layout{.name = "pp2_dp2_interleaved_full_recompute",
               .sizes = {.dp = 2, .pp = 2, .vpp = 2},
               .recompute = graph::Recompute::kFull},
        Layout{.name = "pp4_selective_recompute",
               .sizes = {.pp = 4},
               .recompute = graph::Recompute::kSelective},
        Layout{.name = "cp4_selective_recompute",
               .sizes = {.cp = 4},
               .recompute = graph::Recompute::kSelective},
        Layout{.name = "tp2_cp2_zero0", .sizes = {.tp = 2, .cp = 2}, .zero_stage = 0},
        Layout{.name = "llama_cp2_pp2_full_recompute",
               .sizes = {.cp = 2, .pp = 2},
               .recompute = graph::Recompute::kFull,
               .block = graph::BlockKind::kLlama},
        Layout{.name = "llama_cp2_dp2",
               .sizes = {.cp = 2, .dp = 2},
               .block = graph::BlockKind::kLlama},
        Layout{.name = "llama_tp2_pp2",
               .sizes = {.tp = 2, .pp = 2},
               .block = graph::BlockKind::kLlama},
        Layout{.name = "dp4_zero2", .sizes = {.dp = 4}, .zero_stage = 2},
        Layout{.name = "tp2_dp2_zero2", .sizes = {.tp = 2, .dp = 2}, .zero_stage = 2},
        Layout{.name = "tp2_pp2_zero2", .sizes = {.tp = 2, .pp = 2}, .zero_stage = 2},
        Layout{.name = "llama_cp2_dp2_zero2",
               .sizes = {.cp = 2, .dp = 2},
               .zero_stage = 2,
               .block = graph::BlockKind::kLlama},
        Layout{.name = "pp2_dp2_interleaved_full_recompute_zero2",
               .sizes = {.dp = 2, .pp = 2, .vpp = 2},
               .zero_stage = 2,
               .recompute = graph::Recompute::kFull},
        Layout{.name = "experts_dp4_ep2_zero2",
               .sizes = {.dp = 4, .ep = 2},
               .zero_stage = 2,
               .block = graph::BlockKind::kLlama,
               .moe = kExperts},
        Layout{.name = "experts_dp4_ep4_zero2",
               .sizes = {.dp = 4, .ep = 4},
               .zero_stage = 2,
               .block = graph::BlockKind::kLlama,
               .moe = kExperts},
        Layout{.name = "dp4_zero3", .sizes = {.dp = 4}, .zero_stage = 3},
        Layout{.name = "tp2_dp2_zero3", .sizes = {.tp = 2, .dp = 2}, .zero_stage = 3},
        Layout{.name = "tp2_pp2_zero3", .sizes = {.tp = 2, .pp = 2}, .zero_stage = 3},
        Layout{.name = "pp2_dp2_zero3", .sizes = {.dp = 2, .pp = 2}, .zero_stage = 3},
        Layout{.name = "tp2_dp2_zero3_without_sequence_parallel_full_recompute",
               .sizes = {.tp = 2, .dp = 2},
               .sequence_parallel = false,
               .zero_stage = 3,
               .recompute = graph::Recompute::kFull},
        Layout{.name = "llama_cp2_dp2_zero3",
               .sizes = {.cp = 2, .dp = 2},
               .zero_stage = 3,
               .block = graph::BlockKind::kLlama},
        Layout{.name = "llama_pp2_dp2_interleaved_full_recompute_zero3",
               .sizes = {.dp = 2, .pp = 2, .vpp = 2},
               .zero_stage = 3,
               .recompute = graph::Recompute::kFull,
               .block = graph::BlockKind::kLlama},
        Layout{.name = "experts_dp4_ep4",
               .sizes = {.dp = 4, .ep = 4},
               .block = graph::BlockKind::kLlama,
               .moe = kExperts},
        Layout{.name = "experts_dp4_ep2_full_recompute",
               .sizes = {.dp = 4, .ep = 2},
               .recompute = graph::Recompute::kFull,
               .block = graph::BlockKind::kLlama,
               .moe = kExperts},
        Layout{.name = "experts_dp4_ep2_zero0",
               .sizes = {.dp = 4, .ep = 2},
               .zero_stage = 0,
               .block = graph::BlockKind::kLlama,
               .moe = kExperts},
        Layout{.name = "experts_dp4_ep1",
               .sizes = {.dp = 4},
               .block = graph::BlockKind::kLlama,
               .moe = kExperts},
        Layout{.name = "experts_behind_dense_layers_dp2_ep2_pp2_interleaved",
               .sizes = {.dp = 2, .pp = 2, .ep = 2, .vpp = 2},
               .block = graph::BlockKind::kLlama,
               .moe = {.experts = 6, .topk = 2, .expert_ffn = 48, .dense_layers = 1}},
        // Every expert takes all tokens: what it drops would depend on tp.
        Layout{.name = "experts_tp2_dp2_ep2",
               .sizes = {.tp = 2, .dp = 2, .ep = 2},
               .block = graph::BlockKind::kLlama,
               .moe = {.experts = 4, .topk = 4, .expert_ffn = 48, .shared_expert_ffn = 64}}),
    [](const testing::TestParamInfo<Layout>& tested) { return tested.param.name; });

}  // namespace
}  // namespace prism::launch
