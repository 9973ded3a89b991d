// record_rank runs any program; a shell suffices.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using testing::HasSubstr;
using testing::Not;

Finished RecordRank(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {PRISM_RECORD_RANK};
  for (const std::string& argument : arguments) {
    command.push_back(argument);
  }
  return RunCommand(command);
}

TEST(RecordRank, runs_ranks_in_turn_and_shows_the_last_one) {
  const Finished run = RecordRank({"h100-8x", "16", "0,11", "profile", "/bin/sh", "-c",
                                   "echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("rank 11 of 16, 3\n"));
  EXPECT_THAT(run.output, Not(HasSubstr("rank 0 of")));
}

TEST(RecordRank, ends_with_the_first_rank_that_fails) {
  const Finished run =
      RecordRank({"h100-8x", "16", "0,1", "profile", "/bin/sh", "-c", "exit $((RANK + 4))"});
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.output, HasSubstr("rank 0: exit code 4\n"));
}

TEST(RecordRank, refuses_what_it_cannot_read) {
  EXPECT_EQ(RecordRank({"h100-8x", "16", "0"}).code, 2);
  EXPECT_EQ(RecordRank({"no-such-cluster", "16", "0", "profile", "/bin/true"}).code, 3);
}

}  // namespace
}  // namespace prism
