// What programs are told by ranks that do not run.
#include <signal.h>

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
  EXPECT_THAT(run.output, AllOf(HasSubstr("given doubtful values in place of those of rank 1\n"),
                                HasSubstr("ranks form pp 4")));
  EXPECT_THAT(Log(2), HasSubstr("stage 2 from 192 to 256\n"));
  ExpectNothingLeft();
}

// No stage can go on but with what its neighbours send after it has: they run together first.
TEST_F(UserProgram, runs_stages_that_tell_each_other_every_shape_there_and_back) {
  const std::string told = "ranks 0-3 wait for what the others of them send";
  RunningCommand running({PRISM_EMULATE, "--target-gpus", "4", "--out", folder_ / "out", "--",
                          PRISM_PYTHON, PRISM_PROGRAM_DIR "/shapes_both_ways.py"},
                         folder_ / "log");
  ASSERT_TRUE(running.WaitForOutput(told, 300)) << running.Output();
  kill(running.pid(), SIGUSR1);
  const Finished run = running.Wait(300);
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("rank 3 runs together with those that it waits for\n"),
                    HasSubstr("ranks form pp 4; 4 roles"), HasSubstr("warnings          none")));
  EXPECT_THAT(Log(0), HasSubstr("stage 0 ends step 2\n"));
  ExpectNothingLeft();
}

// The same without a framework, on more ranks; only while they are recorded together does it turn
// out that one of them needs what a rank besides these sends.
TEST_F(UserProgram, runs_ranks_that_wait_for_each_other_with_those_that_they_need) {
  const Finished run =
      RunCommand({PRISM_EMULATE, "--target-gpus", "16", "--pp", "4", "--out", folder_ / "out", "--",
                  PRISM_RAW_PIPELINE, folder_ / "id", "4", "ask"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("info: recording rank 8 first\n"),
                    HasSubstr("for want of what others send: running rank 2 along with them\n"),
                    HasSubstr("warnings          none")));
  ExpectNothingLeft();
}

// The last stage crashes while it is recorded, twice, and then hangs while the others wait for it.
TEST_F(UserProgram, that_hangs_among_ranks_that_wait_for_it_is_named) {
  const Finished run =
      RunCommand({PRISM_EMULATE, "--target-gpus", "4", "--stall-timeout", "3", "--out",
                  folder_ / "out", "--", PRISM_RAW_PIPELINE, folder_ / "id", "4", "hang"});
  EXPECT_THAT(run.output, HasSubstr("running them together"));
  EXPECT_THAT(run.output, HasSubstr("while those that it runs with are at\n    rank 0: "));
  ExpectFailure(run, "the program of rank 3 has issued nothing for 3 s, in iteration 0");
}

TEST_F(UserProgram, that_crashes_among_ranks_that_wait_for_it_is_named) {
  const Finished run = RunCommand({PRISM_EMULATE, "--target-gpus", "4", "--out", folder_ / "out",
                                   "--", PRISM_RAW_PIPELINE, folder_ / "id", "4", "crash"});
  EXPECT_THAT(run.output, HasSubstr("running them together"));
  ExpectFailure(run, "the program of rank 3 ended with exit code 1");
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
