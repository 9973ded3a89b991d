// Ranks that are forked from one start of a program (shim/fork_server/fork_server.h), beside ranks
// that are started by themselves: every file of the results is the same.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/programs/user_program.h"

namespace prism {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kAlone = "the program of each rank is started by itself: ";

class ForkedRanks : public UserProgram {
 protected:
  Finished Run(const std::string& how,
               const std::vector<std::string>& more = {},
               const std::vector<std::string>& before = {}) {
    std::vector<std::string> command = {
        PRISM_EMULATE, "--target-gpus",   "4",  "--out", folder_ / "out",
        "--force",     "--sandbox-ranks", "0,3"};
    command.insert(command.end(), more.begin(), more.end());
    command.emplace_back("--");
    command.insert(command.end(), before.begin(), before.end());
    command.insert(command.end(), {PRISM_PYTHON, PRISM_PROGRAM_DIR "/forked_ranks.py", how});
    return RunCommand(command);
  }

  std::vector<std::string> Results() const {
    std::vector<std::string> texts;
    for (const char* name : {"summary.json", "ranks.csv", "communicators.csv", "graph.prism",
                             "logs/rank0.log", "logs/rank3.log"}) {
      texts.push_back(ReadText(folder_ / (std::string("out/") + name)));
      EXPECT_FALSE(texts.back().empty()) << name;
    }
    return texts;
  }
};

TEST_F(ForkedRanks, give_the_bytes_of_ranks_that_are_started_by_themselves) {
  const Finished forked = Run("plain");
  ASSERT_EQ(forked.code, 0) << forked.output;
  EXPECT_THAT(forked.output, Not(HasSubstr(kAlone)));
  const std::vector<std::string> results = Results();
  const Finished alone = Run("plain", {"--cold-start"});
  ASSERT_EQ(alone.code, 0) << alone.output;
  EXPECT_TRUE(results == Results());
  ExpectNothingLeft();
}

// Without Python, and with every rank run; --strict compares the first one.
TEST_F(ForkedRanks, of_the_built_in_program_give_the_bytes_of_cold_ones) {
  const auto run = [&](const std::string& option) {
    const Finished finished =
        RunCommand({PRISM_EMULATE, "--target-gpus", "4", "--tp", "2", "--model", "gpt3-1.3b",
                    "--global-batch-size", "8", "--out", folder_ / "out", "--force",
                    "--sandbox-ranks", "0,3", option});
    EXPECT_EQ(finished.code, 0) << finished.output;
    EXPECT_THAT(finished.output, Not(HasSubstr(kAlone)));
    return Results();
  };
  const std::vector<std::string> cold = run("--cold-start");
  EXPECT_TRUE(cold == run("--color=off"));
  EXPECT_TRUE(cold == run("--strict"));
}

TEST_F(ForkedRanks, are_not_used_where_a_fork_would_show) {
  const std::vector<std::pair<std::string, std::string>> reasons = {
      {"thread", "a thread lives when the rank is first needed"},
      {"child", "it starts other programs before it needs its rank"}};
  for (const auto& [how, reason] : reasons) {
    const Finished run = Run(how);
    ASSERT_EQ(run.code, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr(kAlone + reason));
  }
}

TEST_F(ForkedRanks, are_not_waited_for_much_longer_than_a_rank_by_itself_needs) {
  const Finished run = Run("hangs");
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr(std::string(kAlone) + "it has not needed its rank for "));
  ExpectNothingLeft();
}

TEST_F(ForkedRanks, are_forked_where_a_library_asks_for_the_rank) {
  const Finished run = Run("library");
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr(kAlone)));
  EXPECT_THAT(Log(3), HasSubstr("rank 3 of 4"));
}

// pyarrow's; the child does without.
TEST_F(ForkedRanks, are_forked_where_a_thread_lives_that_is_made_for_it) {
  const Finished run = Run("jemalloc");
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr(kAlone)));
}

TEST_F(ForkedRanks, make_temporary_folders_of_their_own) {
  const Finished run = Run("folder");
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr(kAlone)));
  const auto folder = [&](int rank) {
    const std::string log = Log(rank);
    const size_t begin = log.find("in /");
    return begin == log.npos ? "" : log.substr(begin, log.find('\n', begin) - begin);
  };
  EXPECT_NE(folder(0), "");
  EXPECT_NE(folder(0), folder(3));
}

// But for those of which a rank would notice it: one prints, one reads what the program sets.
TEST_F(ForkedRanks, have_imported_ahead_what_the_rank_by_itself_does) {
  const Finished forked = Run("imports=" + folder_ / "early");
  ASSERT_EQ(forked.code, 0) << forked.output;
  EXPECT_THAT(forked.output, Not(HasSubstr(kAlone)));
  EXPECT_EQ(ReadText(folder_ / "early.3"), "wsgiref.handlers\n");
  EXPECT_THAT(Log(3), HasSubstr("autotunes: True"));
  EXPECT_THAT(Log(3), HasSubstr("The Zen of Python"));
  const std::vector<std::string> results = Results();
  const Finished alone = Run("imports=" + folder_ / "early", {"--cold-start"});
  ASSERT_EQ(alone.code, 0) << alone.output;
  EXPECT_EQ(ReadText(folder_ / "early.3"), "\n");
  EXPECT_TRUE(results == Results());
}

TEST_F(ForkedRanks, are_forked_where_env_starts_the_program) {
  const Finished run = Run("plain", {}, {"env", "PYTHONPATH=/nowhere", "NOBODYS=1"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr(kAlone)));
  const Finished given = Run("plain", {}, {"env", "NOBODYS=1", "LOCAL_RANK=0"});
  ASSERT_EQ(given.code, 0) << given.output;
  EXPECT_THAT(given.output, HasSubstr(std::string(kAlone) + "it is neither a Python program"));
}

// Not in the copy that it made before, but the copy is right.
TEST_F(ForkedRanks, see_their_rank_in_a_copy_of_the_environment) {
  const Finished run = Run("copy");
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              HasSubstr(std::string(kAlone) +
                        "it keeps a copy of the environment from before it needs its rank"));
}

}  // namespace
}  // namespace prism
