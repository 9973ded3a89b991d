// What programs are told by ranks that do not run.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/programs/user_program.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Rank 5 is not the root of its group and gets shapes from another stage: both of these are absent.
// Rank 0, the first one recorded, is given nothing.
TEST_F(UserProgram, is_told_what_absent_roots_and_senders_gave) {
  const Finished run =
      RunScript("absent_roots.py", {"--target-gpus", "8", "--sandbox-ranks", "0,5"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(Log(5), HasSubstr("objects [{'stage': 1, 'names': ['a', 'b']}]\n"));
  EXPECT_THAT(Log(5), HasSubstr("step 2 count 4 mask 8 shape [16, 256]\n"));
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  EXPECT_THAT(summary["assumptions"].dump(),
              AllOf(HasSubstr("values of absent ranks"), HasSubstr("by absent roots")));
  EXPECT_THAT(summary["warnings"].dump(), Not(HasSubstr("absent_root")));
}

// Stages of torch.distributed.pipelining tell each other the shapes of what they send. The last one
// is recorded before those between, so that it is given those of the first at first.
TEST_F(UserProgram, runs_a_pipeline_whose_stages_differ) {
  const Finished run =
      RunScript("uneven_pipeline.py", {"--target-gpus", "4", "--sandbox-ranks", "2"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("recording it first"), HasSubstr("ranks form pp 4")));
  EXPECT_THAT(Log(2), HasSubstr("stage 2 from 192 to 256\n"));
  ExpectNothingLeft();
}

// No stage can go on but with what its neighbours send after it has: they run together first.
TEST_F(UserProgram, runs_stages_that_tell_each_other_every_shape_there_and_back) {
  const Finished run = RunScript("shapes_both_ways.py", {"--target-gpus", "4"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("ranks 0, 1, 2, 3 wait for what the others of them send"),
                    HasSubstr("ranks form pp 4; 4 roles"), HasSubstr("warnings          none")));
  EXPECT_THAT(Log(0), HasSubstr("stage 0 ends step 2\n"));
  ExpectNothingLeft();
}

// No iteration equals the next one, so the last that is recorded stands for all.
TEST_F(UserProgram, has_batches_of_any_length_and_sends_from_one_stage_to_the_next) {
  const Finished run = RunScript("varying_lengths.py", {"--target-gpus", "8"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("ranks form pp 4 × dp 2; 4 roles"),
                    HasSubstr("the same: iteration 13 stands for all"),
                    HasSubstr("× iterations_vary: rank 0: iteration 13 stands for all; ")));
  EXPECT_THAT(Log(), AllOf(HasSubstr("step 13 of "), Not(HasSubstr("step 15 of "))));
}

// Nor was the answer known when rank 0 was recorded: it is given its own question, and is recorded
// again.
TEST_F(UserProgram, is_told_what_an_absent_rank_answers) {
  const Finished run = RunScript("questions.py", {"--target-gpus", "4", "--sandbox-ranks", "0"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(Log(0), HasSubstr("told [{'columns': 16}]\n"));
}

TEST_F(UserProgram, that_fails_whatever_it_is_told_ends_the_run) {
  setenv("REFUSES", "1", 1);
  const Finished run = RunScript("questions.py", {"--target-gpus", "4", "--sandbox-ranks", "0,3"});
  unsetenv("REFUSES");
  ExpectFailure(run, "rank 3 refuses {'rows': 8, 'of': 1}");
}

}  // namespace
}  // namespace prism
