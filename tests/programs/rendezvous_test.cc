// Unmodified PyTorch programs start, communicate and end as ranks of a job whose other ranks are
// absent: the first, a middle and the last rank; and two sandbox ranks of one job agree.
#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/programs/program_ranks.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

class Programs : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyNoPrograms(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  static void ExpectAllEnd(const ProgramRun& run) {
    const Result<ProgramOutcome> outcome = RunProgram(run);
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_TRUE(outcome->store.ok()) << outcome->store.message();
    EXPECT_THAT(outcome->reports, testing::IsEmpty());
    for (const RankOutcome& rank : outcome->ranks) {
      EXPECT_TRUE(rank.exit.ok()) << rank.exit.message() << "\n" << rank.log;
      EXPECT_THAT(rank.log, testing::HasSubstr("done\n"));
      EXPECT_EQ(rank.agreed, outcome->ranks.front().agreed);
      EXPECT_NE(rank.agreed, "");
    }
  }
};

TEST_F(Programs, nccl_groups_work_on_first_middle_and_last_rank) {
  for (const int32_t rank : {0, 4001, 8191}) {
    ExpectAllEnd({.script = "nccl_groups.py", .ranks = {rank}});
  }
}

TEST_F(Programs, gloo_collectives_work_on_first_middle_and_last_rank) {
  for (const int32_t rank : {0, 4001, 8191}) {
    ExpectAllEnd({.script = "gloo_collectives.py", .ranks = {rank}});
  }
}

TEST_F(Programs, gloo_collectives_of_two_sandbox_ranks_agree) {
  ExpectAllEnd({.script = "gloo_collectives.py", .ranks = {4001, 4003}});
}

TEST_F(Programs, groups_of_all_kinds_are_made) {
  ExpectAllEnd({.script = "groups_of_all_kinds.py", .ranks = {4001}});
}

TEST_F(Programs, nccl_allocates_and_registers_the_memory_of_a_pool) {
  ExpectAllEnd({.script = "nccl_memory.py", .ranks = {17}});
}

TEST_F(Programs, a_file_is_a_meeting_place_and_checks_pass) {
  ExpectAllEnd({.script = "checked_groups.py", .ranks = {17}});
}

// torch goes by addresses, so that no two iterations would do the same.
TEST_F(Programs, a_zero_bubble_schedule_takes_weights_in_one_order) {
  ExpectAllEnd({.script = "zero_bubble.py", .world_size = 8, .ranks = {3}});
}

TEST_F(Programs, ends_of_jobs_of_8192_and_65536_ranks_start) {
  for (const int32_t world_size : {8192, 65536}) {
    for (const int32_t rank : {0, world_size / 2 + 1, world_size - 1}) {
      const ProgramRun run = {.script = "starts.py", .world_size = world_size, .ranks = {rank}};
      const Result<ProgramOutcome> outcome = RunProgram(run);
      ASSERT_TRUE(outcome.ok()) << outcome.status().message();
      EXPECT_TRUE(outcome->ranks[0].exit.ok()) << outcome->ranks[0].exit.message();
      EXPECT_THAT(outcome->ranks[0].log,
                  testing::HasSubstr("rank " + std::to_string(rank) + " " +
                                     std::to_string(rank / 8) + " " + std::to_string(rank)));
      std::printf("rank %d of %d: started after %.1f s, %ld requests to the store\n", rank,
                  world_size, outcome->ranks[0].startup_seconds, outcome->store_requests);
    }
  }
}

TEST_F(Programs, a_key_that_nobody_writes_ends_the_run_by_name) {
  const ProgramRun run = {.script = "blocks.py", .ranks = {17}, .blocked_after_ms = 500};
  const Result<ProgramOutcome> outcome = RunProgram(run);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->store.code(), StatusCode::kRunFailed);
  EXPECT_THAT(outcome->store.message(),
              testing::HasSubstr("/checkpoint/<n>/ready (rank 17, process "));
}

// It would wait ten minutes for ranks that do not run.
TEST_F(Programs, without_the_library_that_answers_a_program_ends_at_once) {
  const ScratchFolder scratch;
  scratch.Write("libprism_rendezvous.so", "of another torch");
  const Result<ProgramOutcome> outcome =
      RunProgram({.script = "starts.py", .ranks = {17}, .torch_libraries = scratch.path()});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const Status& end = outcome->ranks[0].exit;
  EXPECT_EQ(end.code(), StatusCode::kEnvironment) << end.message();
  EXPECT_THAT(end.message(), testing::HasSubstr("the program of rank 17 cannot meet the others"));
  EXPECT_THAT(end.message(), testing::HasSubstr("libprism_rendezvous.so: file too short; remove"));
}

// Node 5 of 1,024 with two ranks each; the head node's name resolves nowhere.
TEST_F(Programs, torchrun_starts_the_ranks_of_a_node) {
  const std::vector<std::vector<std::string>> rendezvous = {
      {"--rdzv-backend=static", "--node-rank=5", "--master-addr=head-node.invalid",
       "--master-port=29400"},
      {"--rdzv-backend=c10d", "--rdzv-id=job", "--rdzv-endpoint=head-node.invalid:29400"}};
  for (const std::vector<std::string>& how : rendezvous) {
    ProgramRun run = {
        .script = "starts.py",
        .python_arguments = {"-m", "torch.distributed.run", "--nnodes=1024", "--nproc-per-node=2"},
        .world_size = 2048,
        .ranks_per_node = 2,
        .ranks = {10}};
    run.python_arguments.insert(run.python_arguments.end(), how.begin(), how.end());
    const Result<ProgramOutcome> outcome = RunProgram(run);
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_TRUE(outcome->store.ok()) << outcome->store.message();
    EXPECT_TRUE(outcome->ranks[0].exit.ok()) << outcome->ranks[0].exit.message();
    EXPECT_THAT(outcome->ranks[0].log, testing::HasSubstr("rank 10 5 10\n"));
    EXPECT_THAT(outcome->ranks[0].log, testing::HasSubstr("rank 11 5 11\n"));
  }
}

// Node 5, whose other process is rank 10.
TEST_F(Programs, of_processes_that_torch_spawns_only_the_ranks_own_runs) {
  const Result<ProgramOutcome> outcome =
      RunProgram({.script = "spawned.py", .world_size = 16, .ranks_per_node = 2, .ranks = {11}});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(outcome->store.ok()) << outcome->store.message();
  EXPECT_TRUE(outcome->ranks[0].exit.ok()) << outcome->ranks[0].exit.message();
  EXPECT_THAT(outcome->ranks[0].log, testing::HasSubstr("rank 11 step 4\n"));
  EXPECT_THAT(outcome->ranks[0].log, testing::Not(testing::HasSubstr("rank 10")));
  // That rank's process does not even read the file.
  const std::string& log = outcome->ranks[0].log;
  EXPECT_EQ(log.find("read __mp_main__\n"), log.rfind("read __mp_main__\n")) << log;
  EXPECT_NE(log.find("read __mp_main__\n"), std::string::npos) << log;
}

}  // namespace
}  // namespace prism::launch
