// A run with --resume that is ended at any point goes on from what it had recorded, and gives the
// bytes of a run in one go; anything else that it was recorded with is told, and recorded anew.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "tests/support/job_run.h"

namespace prism {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr double kLongSeconds = 180;

class Resume : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> Job(const std::string& name,
                                             const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {PRISM_EMULATE, "--cold-start", "--out", folder_ / name};
    command.insert(command.end(), job_.begin(), job_.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  [[nodiscard]] std::vector<std::string> Kept(const std::string& name) const {
    std::vector<std::string> names;
    if (Exists(folder_ / (name + ".recorded"))) {
      std::ranges::copy_if(Entries(folder_ / (name + ".recorded")), std::back_inserter(names),
                           [](const std::string& entry) { return entry.starts_with("rank"); });
    }
    return names;
  }

  // Ends a run once it has kept that many ranks, and after a while more.
  void EndOnceKept(size_t ranks, int number, useconds_t more_us) {
    RunningCommand running(Job("out", {"--resume"}), folder_ / "log");
    for (int look = 0; look < kLongSeconds * 200 && Kept("out").size() < ranks; ++look) {
      usleep(5000);
    }
    usleep(more_us);
    kill(running.pid(), number);
    const Finished run = running.Wait(kLongSeconds);
    EXPECT_EQ(run.code, 128 + number) << run.output;
    EXPECT_GE(Kept("out").size(), ranks) << run.output;
  }

  void ExpectSameAs(const std::string& expected) const {
    for (const char* file : {"/summary.json", "/ranks.csv", "/communicators.csv", "/graph.prism"}) {
      const std::string bytes = ReadText(folder_ / (expected + file));
      EXPECT_FALSE(bytes.empty()) << file;
      EXPECT_TRUE(ReadText(folder_ / ("out" + std::string(file))) == bytes) << file;
    }
    EXPECT_FALSE(Exists(folder_ / "out.recorded"));
  }

  // Ends a run in order, and the next one at once, each after it has kept a rank more.
  void ExpectGoesOn() {
    ASSERT_EQ(RunCommand(Job("whole")).code, 0);
    Rng rng(42, "resume");
    EndOnceKept(1, SIGTERM, static_cast<useconds_t>(rng.UniformInt(0, 500'000)));
    EXPECT_THAT(ReadText(folder_ / "out/FAILED"), HasSubstr("terminated by SIGTERM"));
    EndOnceKept(Kept("out").size() + 1, SIGKILL,
                static_cast<useconds_t>(rng.UniformInt(0, 500'000)));
    const size_t kept = Kept("out").size();
    const Finished last = RunCommand(Job("out", {"--resume"}));
    EXPECT_EQ(last.code, 0) << last.output;
    EXPECT_THAT(last.output,
                HasSubstr("going on from " + std::to_string(kept) + " recordings in "));
    ExpectSameAs("whole");
  }

  ScratchFolder folder_;
  std::vector<std::string> job_ = {
      "--target-gpus",       "16", "--pp",    "4",         "--tp",      "2",
      "--global-batch-size", "8",  "--model", "gpt3-1.3b", "--seq-len", "256"};
};

TEST_F(Resume, goes_on_after_being_ended_twice) {
  ExpectGoesOn();
}

// Its rank 0 comes first, and says for how long the others are recorded.
TEST_F(Resume, goes_on_with_a_program) {
  job_ = {"--config", PRISM_SOURCE_DIR "/experiments/02_ddp/small.toml"};
  ExpectGoesOn();
}

TEST_F(Resume, reads_no_damaged_file_and_nothing_of_another_key) {
  EndOnceKept(2, SIGKILL, 0);
  const std::vector<std::string> kept = Kept("out");
  const std::string damaged = folder_ / ("out.recorded/" + kept.front());
  fs::resize_file(damaged, fs::file_size(damaged) / 2);
  const std::string changed = folder_ / ("out.recorded/" + kept.back());
  std::string bytes = ReadText(changed);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] + 1);
  WriteText(changed, bytes);
  const Finished run = RunCommand(Job("out", {"--resume"}));
  EXPECT_EQ(run.code, 0) << run.output;
  ASSERT_EQ(RunCommand(Job("whole")).code, 0);
  ExpectSameAs("whole");
  fs::remove_all(folder_ / "out");

  EndOnceKept(1, SIGKILL, 0);
  const Finished other = RunCommand(Job("out", {"--resume", "--zero", "2"}));
  EXPECT_EQ(other.code, 0) << other.output;
  EXPECT_THAT(other.output, HasSubstr("recording anew: option zero changed since"));
  ASSERT_EQ(RunCommand(Job("whole2", {"--zero", "2"})).code, 0);
  ExpectSameAs("whole2");
}

TEST_F(Resume, takes_no_folder_that_is_not_its_own) {
  folder_.Write("out.recorded/mine", "a file");
  const Finished run = RunCommand(Job("out", {"--resume"}));
  EXPECT_EQ(run.code, 2) << run.output;
  EXPECT_THAT(run.output, HasSubstr("which exists but has no KEY of an earlier run"));
  EXPECT_EQ(ReadText(folder_ / "out.recorded/mine"), "a file");
}

// A program's sources, the files that its command names, and its environment.
TEST_F(Resume, notices_what_changed_of_a_program) {
  const std::string source = ReadText(PRISM_SOURCE_DIR "/experiments/02_ddp/train.py");
  folder_.Write("train/train.py", source);
  folder_.Write("train/model/block.py", "WIDTH = 1\n");
  folder_.Write("data.txt", "1\n");
  const std::vector<std::string> command = {PRISM_EMULATE,
                                            "--target-gpus",
                                            "4",
                                            "--iterations",
                                            "1000",
                                            "--out",
                                            folder_ / "out",
                                            "--resume",
                                            "--",
                                            PRISM_PYTHON,
                                            folder_ / "train/train.py",
                                            "--layers",
                                            "1",
                                            "--hidden",
                                            "64",
                                            "--heads",
                                            "4",
                                            "--vocab",
                                            "128",
                                            "--seq-len",
                                            "16"};
  const auto begin = [&](const std::vector<std::string>& words) {
    RunningCommand running(words, folder_ / "log");
    EXPECT_TRUE(running.WaitForOutput(": slice ", kLongSeconds)) << running.Output();
    kill(running.pid(), SIGTERM);
    return running.Wait(kLongSeconds).output;
  };
  EXPECT_THAT(begin(command), HasSubstr("keeping recordings there"));
  EXPECT_THAT(begin(command), HasSubstr("going on from 0 recordings"));
  folder_.Write("train/model/block.py", "WIDTH = 2\n");
  EXPECT_THAT(begin(command),
              HasSubstr("recording anew: file " + (folder_ / "train/model/block.py") + " changed"));
  setenv("RESUME_TEST_DEPTH", "3", 1);
  EXPECT_THAT(begin(command), HasSubstr("recording anew: variable RESUME_TEST_DEPTH changed"));
  setenv("SLURM_JOB_ID", "17", 1);  // of the batch system: another one the next time
  EXPECT_THAT(begin(command), HasSubstr("going on from 0 recordings"));
  unsetenv("SLURM_JOB_ID");
  unsetenv("RESUME_TEST_DEPTH");
}

TEST_F(Resume, is_refused_where_nothing_is_recorded) {
  const Finished run = RunCommand({PRISM_EMULATE, "--graph", folder_ / "no.prism", "--resume"});
  EXPECT_EQ(run.code, 2) << run.output;
  EXPECT_THAT(run.output, HasSubstr("--resume and --graph exclude each other"));
}

}  // namespace
}  // namespace prism
