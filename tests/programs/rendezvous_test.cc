// Unmodified PyTorch programs start, talk and end as ranks of a job whose other ranks are not
// there: the first, a middle and the last rank; and two sandbox ranks of one job agree.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/programs/program_ranks.h"

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

}  // namespace
}  // namespace prism::launch
