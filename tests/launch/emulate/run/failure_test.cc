// Every way in which a run can fail ends it with the right code, a note of what happened, and
// nothing left behind: no process, no partial result.
#include <signal.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kLongSeconds = 180;  // for what takes a few seconds on an idle machine

void SleepSeconds(double seconds) {
  const auto nanoseconds = static_cast<long>(seconds * 1e9);
  const timespec duration = {.tv_sec = nanoseconds / 1'000'000'000,
                             .tv_nsec = nanoseconds % 1'000'000'000};
  nanosleep(&duration, nullptr);
}

// The first descendant with this name, waited for; -1 when none comes.
pid_t FindDescendant(const std::string& name, size_t index = 0) {
  for (int turn = 0; turn < static_cast<int>(kLongSeconds * 500); ++turn) {
    std::vector<pid_t> found;
    for (const pid_t process : Descendants()) {
      if (ProcessName(process) == name) {
        found.push_back(process);
      }
    }
    if (found.size() > index) {
      return found[index];
    }
    SleepSeconds(0.002);
  }
  return -1;
}

// Killed processes take a moment to disappear, longer on a busy machine.
bool AllGo() {
  for (int turn = 0; turn < static_cast<int>(kLongSeconds * 100); ++turn) {
    if (Descendants().empty()) {
      return true;
    }
    SleepSeconds(0.01);
  }
  return false;
}

class Failure : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> Job(const std::string& name,
                                             const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {
        PRISM_EMULATE, "--target-gpus",       "8", "--model", "gpt3-1.3b",   "--tp", "2", "--pp",
        "2",           "--global-batch-size", "4", "--out",   folder_ / name};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  void ExpectOnlyFailure(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(AllGo());
    EXPECT_FALSE(HasPartialOutput(folder_ / name));
    ASSERT_TRUE(Exists(folder_ / name));
    EXPECT_THAT(Entries(folder_ / name), ElementsAre("FAILED"));
    EXPECT_THAT(ReadText(folder_ / (name + "/FAILED")), HasSubstr(text));
  }

  ScratchFolder folder_;
};

TEST_F(Failure, killed_program_is_named_while_recording) {
  RunningCommand running(Job("out", {"--cold-start"}), folder_ / "log");
  const pid_t program = FindDescendant("prism-workload");
  ASSERT_GT(program, 0);
  kill(program, SIGKILL);
  const Finished run = running.Wait(kLongSeconds);
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("the program of rank "),
                                HasSubstr("was killed by signal 9 (SIGKILL)")));
  ExpectOnlyFailure("out", "SIGKILL");
}

TEST_F(Failure, killed_program_is_named_while_emulating) {
  RunningCommand running(Job("out", {"--iterations", "50", "--cold-start"}), folder_ / "log");
  ASSERT_TRUE(running.WaitForOutput(": emulate ", kLongSeconds)) << running.Output();
  const pid_t program = FindDescendant("prism-workload");
  ASSERT_GT(program, 0);
  kill(program, SIGKILL);
  const Finished run = running.Wait(kLongSeconds);
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("was killed by signal 9 (SIGKILL)"));
  ExpectOnlyFailure("out", "SIGKILL");
}

// The first process is the one that ranks are forked from.
TEST_F(Failure, killed_fork_server_is_done_without) {
  RunningCommand running(Job("out"), folder_ / "log");
  const pid_t server = FindDescendant("prism-workload");
  ASSERT_GT(server, 0);
  kill(server, SIGKILL);
  const Finished run = running.Wait(kLongSeconds);
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("the program of each rank is started by itself: it ended"));
  EXPECT_TRUE(AllGo());
}

// mpirun itself gives the exit code of the process that died: 128 + 9.
TEST_F(Failure, killed_worker_process_ends_the_run) {
  if (std::string(PRISM_MPIRUN).empty()) {
    GTEST_SKIP() << "no mpirun";
  }
  std::vector<std::string> command = Job("out");
  command.insert(command.begin(), {PRISM_MPIRUN, "-n", "2"});
  RunningCommand running(command, folder_ / "log");
  ASSERT_TRUE(running.WaitForOutput(": slice ", kLongSeconds)) << running.Output();
  const pid_t worker = FindDescendant("prism-emulate", 1);
  ASSERT_GT(worker, 0);
  kill(worker, SIGKILL);
  const Finished run = running.Wait(kLongSeconds);
  EXPECT_EQ(run.code, 128 + SIGKILL) << run.output;
  EXPECT_TRUE(AllGo());
  EXPECT_FALSE(HasPartialOutput(folder_ / "out"));
  if (Exists(folder_ / "out")) {  // mpirun gives process 0 a second
    ExpectOnlyFailure("out", "mpirun ended the run: another process failed or was killed");
  }
}

class FailureBySignal : public Failure, public testing::WithParamInterface<int> {};

TEST_P(FailureBySignal, ends_the_run_in_order_at_any_time) {
  const auto begin = std::chrono::steady_clock::now();
  const Finished whole = RunCommand(Job("whole"));
  ASSERT_EQ(whole.code, 0) << whole.output;
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  constexpr int kPoints = 10;
  int ended = 0;
  for (int run_number = 0; ended < kPoints && run_number < 3 * kPoints; ++run_number) {
    const std::string name = "out" + std::to_string(run_number);
    RunningCommand running(Job(name), folder_ / "log");
    if (ended > 0) {
      ASSERT_TRUE(running.WaitForOutput(": slice ", kLongSeconds)) << running.Output();
      SleepSeconds(seconds * (ended - 1) / kPoints);
    }
    kill(running.pid(), GetParam());
    const Finished run = running.Wait(kLongSeconds);
    EXPECT_TRUE(AllGo()) << ended;
    EXPECT_FALSE(HasPartialOutput(folder_ / name)) << ended;
    if (run.code == 0) {  // the machine is less busy than before: try the same point again, earlier
      EXPECT_TRUE(Exists(folder_ / (name + "/run.json"))) << ended;
      seconds *= 0.8;
      continue;
    }
    EXPECT_EQ(run.code, 128 + GetParam()) << run.output;
    ++ended;
    if (ended == 1 && !Exists(folder_ / name)) {
      continue;  // before the run had begun
    }
    ExpectOnlyFailure(name, GetParam() == SIGINT ? "interrupted" : "terminated");
  }
  EXPECT_EQ(ended, kPoints);
}

INSTANTIATE_TEST_SUITE_P(Signals,
                         FailureBySignal,
                         testing::Values(SIGINT, SIGTERM),
                         [](const auto& parameter) {
                           return parameter.param == SIGINT ? "SIGINT" : "SIGTERM";
                         });

TEST_F(Failure, a_closed_terminal_ends_the_run_in_order) {
  signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
  RunningCommand running(Job("out"), folder_ / "log");
  ASSERT_TRUE(running.WaitForOutput(": slice ", kLongSeconds)) << running.Output();
  kill(running.pid(), SIGHUP);
  const Finished run = running.Wait(kLongSeconds);
  EXPECT_EQ(run.code, 128 + SIGTERM) << run.output;
  EXPECT_TRUE(AllGo());
  ExpectOnlyFailure("out", "terminated by SIGHUP");
}

TEST_F(Failure, full_disk_ends_the_run_and_leaves_the_note) {
  const std::string disk = folder_ / "disk";
  std::filesystem::create_directory(disk);
  if (mount("prism-test", disk.c_str(), "tmpfs", 0, "size=16k") != 0) {
    GTEST_SKIP() << "a small file system cannot be mounted here: not root";
  }
  const Finished run = RunCommand(Job("disk/out"));
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("cannot write " + (folder_ / "disk/out/")),
                    HasSubstr("No space left on device; free space, or write elsewhere with --out"),
                    Not(HasSubstr(".partial."))));
  ExpectOnlyFailure("disk/out", "No space left on device");
  EXPECT_EQ(umount(disk.c_str()), 0);
}

// A copy of the program in a folder without the files that belong beside it.
class FailureWithoutParts : public Failure {
 protected:
  void SetUp() override {
    for (const char* name : {"bin", "lib", "lib/prism"}) {
      std::filesystem::create_directory(folder_ / name);
    }
    std::filesystem::copy_file(PRISM_EMULATE, folder_ / "bin/prism-emulate");
  }

  [[nodiscard]] Finished Run() const {
    std::vector<std::string> command = Job("out");
    command[0] = folder_ / "bin/prism-emulate";
    return RunCommand(command);
  }
};

TEST_F(FailureWithoutParts, missing_workload_without_sources_is_said_before_the_run) {
  WriteText(folder_ / "lib/libprism_shim.so", "");
  setenv("PRISM_PYTHON", PRISM_VENV_PYTHON, 1);
  const Finished run = Run();
  unsetenv("PRISM_PYTHON");
  EXPECT_EQ(run.code, 5) << run.output;
  EXPECT_THAT(run.output, HasSubstr("src/launch/process/torch_sources.txt is missing"));
  EXPECT_FALSE(Exists(folder_ / "out"));
}

TEST_F(FailureWithoutParts, missing_shim_is_said_before_the_run) {
  const Finished run = Run();
  EXPECT_EQ(run.code, 5) << run.output;
  EXPECT_THAT(run.output, HasSubstr("libprism_shim.so is missing"));
  EXPECT_FALSE(Exists(folder_ / "out"));
}

TEST_F(FailureWithoutParts, folder_that_cannot_be_preloaded_from_is_said_before_the_run) {
  for (const char* name : {"with space", "with:colon"}) {
    std::filesystem::create_directory(folder_ / name);
    std::filesystem::rename(folder_ / "bin", folder_ / (std::string(name) + "/bin"));
    std::vector<std::string> command = Job("out");
    command[0] = folder_ / (std::string(name) + "/bin/prism-emulate");
    const Finished run = RunCommand(command);
    EXPECT_EQ(run.code, 5) << run.output;
    EXPECT_THAT(run.output, HasSubstr(std::string(name) + "/lib\" has a space or a colon"));
    EXPECT_FALSE(Exists(folder_ / "out"));
    std::filesystem::rename(folder_ / (std::string(name) + "/bin"), folder_ / "bin");
  }
}

// The loader without the path to the wheel: as if the wheel had been removed after the build.
TEST_F(Failure, missing_libtorch_is_an_environment_error) {
  const Finished without =
      RunCommand({PRISM_EMULATE, "--target-gpus", "16", "--out", folder_ / "without", "--",
                  "/lib64/ld-linux-x86-64.so.2", "--inhibit-rpath", "", PRISM_WORKLOAD});
  EXPECT_EQ(without.code, 5) << without.output;
  EXPECT_THAT(without.output, HasSubstr("libtorch"));
  ExpectOnlyFailure("without", "libtorch");
}

TEST_F(Failure, program_without_output_is_said_to_have_none) {
  const Finished run =
      RunCommand({PRISM_EMULATE, "--target-gpus", "2", "--out", folder_ / "out", "--", "false"});
  EXPECT_EQ(run.code, 1) << run.output;
  // Of rank 0 or 1: both are recorded at the same time.
  EXPECT_THAT(run.output, HasSubstr(" ended with exit code 1; it printed nothing\n"));
  ExpectOnlyFailure("out", "it printed nothing");
}

// They have not reached the device, so that nothing but their output shows where they are.
TEST_F(Failure, program_that_hangs_is_shown_with_what_it_printed) {
  for (const auto& [script, shown] :
       {std::pair{"sleep 300", "sets the bound; it printed nothing\n"},
        std::pair{"echo loading; sleep 300",
                  "its last lines:\nloading\nmore in the file FAILED of the output folder\n"}}) {
    const Finished run = RunCommand({PRISM_EMULATE, "--target-gpus", "2", "--stall-timeout", "2",
                                     "--out", folder_ / "out", "--", "sh", "-c", script});
    EXPECT_EQ(run.code, 1) << run.output;
    EXPECT_TRUE(run.output.ends_with(shown)) << run.output;
    ExpectOnlyFailure("out", "has issued nothing for 2 s");
  }
}

TEST_F(Failure, out_of_device_memory_names_rank_op_and_bytes) {
  const Finished run =
      RunCommand({PRISM_EMULATE, "--cluster", "a100-40-8x", "--model", "gpt3-13b", "--target-gpus",
                  "16", "--tp", "1", "--pp", "2", "--out", folder_ / "out"});
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr(" ran out of device memory in aten::"),
                                HasSubstr(" bytes) asked for"), HasSubstr("held by parameters "),
                                HasSubstr("largest blocks "),
                                HasSubstr("CUDA out of memory. Tried to allocate "),
                                HasSubstr("more in the file FAILED of the output folder")));
  ExpectOnlyFailure("out", "CUDA out of memory");
}

}  // namespace
}  // namespace prism
