// Sixteen ranks, all of them real: what one recorded rank per role predicts for the others has to
// be what they do. Serving all other ranks from a few recorded ones depends on this.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/diff/diff.h"
#include "graph/validate/validate.h"
#include "slicer/stitch/stitch.h"
#include "tests/sim/recorded_ranks.h"

namespace prism::launch {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

std::vector<Rank> AllRanks(const graph::JobSpec& job) {
  std::vector<Rank> ranks;
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(job.parallel.world_size()); ++rank) {
    ranks.emplace_back(rank);
  }
  return ranks;
}

std::vector<Rank> Representatives(const slicer::SlicePlan& plan) {
  std::vector<Rank> ranks;
  for (const slicer::PlannedRole& role : plan.roles) {
    ranks.push_back(role.representative);
  }
  return ranks;
}

// Fragments beyond the representatives are compared with their role.
Result<graph::Graph> StitchAll(const RunContext& context, std::vector<graph::Fragment> fragments) {
  slicer::StitchInput input;
  input.job = context.job;
  input.cluster = context.cluster;
  input.plan = context.plan;
  input.fragments = std::move(fragments);
  return slicer::Stitch(std::move(input));
}

std::string Text(const std::vector<graph::Difference>& differences) {
  std::string text;
  for (const graph::Difference& difference : differences) {
    text += std::string(graph::DifferenceKindName(difference.kind)) + " " + difference.where +
            ": " + difference.left + " | " + difference.right + "\n";
  }
  return text;
}

void ExpectTruth(const graph::JobSpec& job) {
  const Recording recording = {.job = job};
  const Result<RunContext> context = MakeTestContext(recording);
  ASSERT_TRUE(context.ok()) << context.status().message();
  auto real = RecordTogether(recording, AllRanks(job));
  ASSERT_TRUE(real.ok()) << real.status().message();
  auto representatives = RecordAlone(recording, Representatives(context->plan));
  ASSERT_TRUE(representatives.ok()) << representatives.status().message();

  for (const graph::Fragment& fragment : *real) {
    const graph::MemoryProfile& role =
        (*representatives)[context->plan.role_of[fragment.rank.value()]].memory;
    EXPECT_EQ(fragment.memory.peak_allocated, role.peak_allocated) << fragment.rank.value();
    EXPECT_EQ(fragment.memory.peak_reserved, role.peak_reserved) << fragment.rank.value();
  }
  const Result<graph::Graph> from_all = StitchAll(*context, *real);
  ASSERT_TRUE(from_all.ok()) << from_all.status().message();
  const Result<graph::Graph> from_roles = StitchAll(*context, *representatives);
  ASSERT_TRUE(from_roles.ok()) << from_roles.status().message();
  EXPECT_LE(from_all->roles.size(), 8U);
  EXPECT_EQ(Text(graph::DiffGraphs(*from_all, *from_roles)), "");
  EXPECT_TRUE(graph::Validate(*from_roles).ok());
}

TEST(Truth, plain_job_equals_what_one_rank_a_role_says) {
  ExpectTruth(TinyJob());
}

TEST(Truth, interleaved_sharded_recomputed_job_equals_what_one_rank_a_role_says) {
  graph::JobSpec job = TinyJob();
  job.parallel.vpp = 2;
  job.zero_stage = 1;
  job.recompute = graph::Recompute::kFull;
  ExpectTruth(job);
}

TEST(Truth, context_parallel_job_equals_what_one_rank_a_role_says) {
  graph::JobSpec job = TinyJob();
  job.parallel = {.tp = 2, .cp = 2, .dp = 2, .pp = 2};
  job.zero_stage = 1;
  job.recompute = graph::Recompute::kSelective;
  ExpectTruth(job);
}

TEST(Truth, expert_parallel_job_equals_what_one_rank_a_role_says) {
  graph::JobSpec job = TinyJob();
  job.model.block = graph::BlockKind::kLlama;
  job.model.moe = {
      .experts = 8, .topk = 2, .expert_ffn = 256, .shared_expert_ffn = 128, .dense_layers = 1};
  job.parallel = {.tp = 2, .dp = 4, .pp = 2, .ep = 2, .etp = 2};
  job.zero_stage = 1;
  ExpectTruth(job);
}

TEST(Truth, job_with_sharded_gradients_equals_what_one_rank_a_role_says) {
  graph::JobSpec job = TinyJob();
  job.parallel = {.tp = 2, .cp = 2, .dp = 2, .pp = 2, .vpp = 2};
  job.zero_stage = 2;
  ExpectTruth(job);
}

TEST(Truth, job_with_sharded_parameters_equals_what_one_rank_a_role_says) {
  graph::JobSpec job = TinyJob();
  job.parallel = {.tp = 2, .dp = 4, .pp = 2};
  job.zero_stage = 3;
  ExpectTruth(job);
  job.model.tied_embeddings = true;
  job.parallel = {.tp = 2, .cp = 2, .dp = 4};
  ExpectTruth(job);
}

// What is recorded of a rank with alike micro-batches left out, but for the hash and the counts of
// assumed values, which are of what ran.
void ExpectSameWithoutRounds(const graph::JobSpec& job) {
  const Result<RunContext> context = MakeTestContext({.job = job});
  ASSERT_TRUE(context.ok()) << context.status().message();
  const std::vector<Rank> ranks = Representatives(context->plan);
  auto whole = RecordAlone({.job = job}, ranks);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  auto without = RecordAlone({.job = job, .leaves_out_rounds = true}, ranks);
  ASSERT_TRUE(without.ok()) << without.status().message();
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_NE((*without)[i].memory.layout_hash, (*whole)[i].memory.layout_hash) << i;
    (*without)[i].memory.layout_hash = (*whole)[i].memory.layout_hash;
    EXPECT_LE((*without)[i].warnings.size(), (*whole)[i].warnings.size());
    (*without)[i].warnings = (*whole)[i].warnings;
    EXPECT_EQ((*whole)[i].rounds_left_out, 0);
    (*without)[i].rounds_left_out = 0;
    EXPECT_TRUE((*without)[i].program == (*whole)[i].program) << "rank " << ranks[i].value();
    EXPECT_TRUE((*without)[i].memory == (*whole)[i].memory) << "rank " << ranks[i].value();
    EXPECT_EQ((*without)[i].early_calls, (*whole)[i].early_calls);
    EXPECT_EQ((*without)[i].host_times, (*whole)[i].host_times);
    EXPECT_TRUE((*without)[i] == (*whole)[i]) << "rank " << ranks[i].value();
  }
}

TEST(Truth, rounds_of_micro_batches_that_are_left_out_are_recorded) {
  graph::JobSpec job = TinyJob();
  job.global_batch_size = 24;
  job.recompute = graph::Recompute::kSelective;
  job.sequence_parallel = true;
  ExpectSameWithoutRounds(job);
  job.parallel = {.dp = 2, .pp = 2, .vpp = 2};
  job.zero_stage = 1;
  ExpectSameWithoutRounds(job);
  job.parallel = {.dp = 4};
  job.global_batch_size = 32;
  job.zero_stage = 3;
  ExpectSameWithoutRounds(job);
}

TEST(Truth, extra_op_on_one_rank_splits_its_role_visibly) {
  const Recording recording = {
      .job = TinyJob(), .program = PRISM_PLANTED_WORKLOAD, .plants = {"--plant", "extra-op:5"}};
  const Result<RunContext> context = MakeTestContext(recording);
  ASSERT_TRUE(context.ok()) << context.status().message();
  std::vector<Rank> ranks = Representatives(context->plan);
  ranks.emplace_back(5);  // stage 1, where rank 4 represents all
  auto fragments = RecordAlone(recording, ranks);
  ASSERT_TRUE(fragments.ok()) << fragments.status().message();
  const Result<graph::Graph> graph = StitchAll(*context, *fragments);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->roles.size(), 5U);
  EXPECT_EQ(graph->ranks.role[5], 4U);
  EXPECT_EQ(graph->ranks.role[4], 1U);
  ASSERT_EQ(graph->warnings.empty(), false);
  EXPECT_THAT(graph->warnings,
              Contains(testing::AllOf(Field(&graph::Warning::code, "role_split"),
                                      Field(&graph::Warning::example,
                                            HasSubstr("rank 5 departs from stage 1 (rank 4)")))));
}

}  // namespace
}  // namespace prism::launch
