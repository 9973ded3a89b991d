// A user's program in a folder of its own, through recording, graph, replay and emulation.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {

class UserProgram : public testing::Test {
 protected:
  [[nodiscard]] Finished RunScript(const std::string& script,
                                   const std::vector<std::string>& options) {
    std::vector<std::string> command = {PRISM_EMULATE, "--out", folder_ / "out"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/" + script});
    return RunCommand(command);
  }

  // tests/programs/training.py, which does `how` at its third step, on two GPUs.
  [[nodiscard]] Finished Train(const std::string& how, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {PRISM_EMULATE,   "--target-gpus",   "2", "--out",
                                        folder_ / "out", "--sandbox-ranks", "0"};
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(), {"--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/training.py", how});
    return RunCommand(command);
  }

  void ExpectNothingLeft() const {
    // Killed processes take a moment to disappear.
    for (int look = 0; look < 100 && !Descendants().empty(); ++look) {
      usleep(50'000);
    }
    EXPECT_TRUE(Descendants().empty());
    EXPECT_FALSE(HasPartialOutput(folder_ / "out"));
  }

  void ExpectFailure(const Finished& run, const std::string& text) const {
    EXPECT_EQ(run.code, 1) << run.output;
    EXPECT_THAT(run.output, testing::HasSubstr(text));
    EXPECT_THAT(Entries(folder_ / "out"), testing::ElementsAre("FAILED"));
    ExpectNothingLeft();
  }

  [[nodiscard]] std::string Log(int rank = 0) const {
    return ReadText(folder_ / ("out/logs/rank" + std::to_string(rank) + ".log"));
  }

  ScratchFolder folder_;
};

}  // namespace prism
