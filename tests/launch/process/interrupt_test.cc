#include "launch/process/interrupt.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

// The status of a process that prepares itself, installs the handlers, and runs `interrupt`.
Status StatusAfter(const std::function<void()>& prepare, const std::function<void()>& interrupt) {
  std::array<int, 2> pipe_ends = {-1, -1};
  if (pipe(pipe_ends.data()) != 0) {
    return RunFailed("no pipe");
  }
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    InstallInterruptHandlers();
    interrupt();
    const Status status = InterruptStatus();
    const ssize_t written = write(pipe_ends[1], status.message().data(), status.message().size());
    _exit(written < 0 ? 1 : static_cast<int>(status.code()));
  }
  close(pipe_ends[1]);
  std::array<char, 1024> text = {};
  const ssize_t length = read(pipe_ends[0], text.data(), text.size());
  close(pipe_ends[0]);
  int end = 0;
  if (waitpid(child, &end, 0) != child || !WIFEXITED(end)) {
    return RunFailed("killed");
  }
  return WEXITSTATUS(end) == 0 ? OkStatus()
                               : Status(static_cast<StatusCode>(WEXITSTATUS(end)),
                                        std::string(text.data(), static_cast<size_t>(length)));
}

void Raise(int number) {
  kill(getpid(), number);
}

TEST(Interrupt, each_signal_has_its_code) {
  const auto after = [](int number) {
    return StatusAfter([] { signal(SIGHUP, SIG_DFL); }, [number] { Raise(number); }).code();
  };
  EXPECT_EQ(after(SIGHUP), StatusCode::kTerminated);
  EXPECT_EQ(after(SIGINT), StatusCode::kInterrupted);
  EXPECT_EQ(after(SIGTERM), StatusCode::kTerminated);
  EXPECT_EQ(after(SIGXFSZ), StatusCode::kOk);
  EXPECT_EQ(after(SIGPIPE), StatusCode::kOk);
}

// Continues in a process that this one ends with SIGTERM, as mpirun does when another of its
// processes has vanished. The signal waits until the process does.
void BeEndedByParent() {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  const pid_t launched = fork();
  if (launched != 0) {
    kill(launched, SIGTERM);
    int end = 0;
    waitpid(launched, &end, 0);
    _exit(WEXITSTATUS(end));
  }
}

void AwaitSignal() {
  sigset_t none;
  sigemptyset(&none);
  sigsuspend(&none);
}

TEST(Interrupt, end_by_mpirun_is_told_from_one_by_the_user) {
  const auto under_mpirun = [] { setenv("OMPI_COMM_WORLD_SIZE", "2", 1); };
  const Status by_parent = StatusAfter(BeEndedByParent, AwaitSignal);
  const Status by_user = StatusAfter(under_mpirun, [] { Raise(SIGTERM); });
  const Status by_mpirun = StatusAfter(
      [&] {
        under_mpirun();
        BeEndedByParent();
      },
      AwaitSignal);
  for (const Status& status : {by_parent, by_user, by_mpirun}) {
    EXPECT_EQ(status.code(), StatusCode::kTerminated);
  }
  EXPECT_EQ(by_parent.message(), "terminated by SIGTERM");
  EXPECT_EQ(by_user.message(), "terminated by SIGTERM");
  EXPECT_THAT(by_mpirun.message(), testing::StartsWith("mpirun ended the run: another process"));
}

TEST(Interrupt, nohup_keeps_its_meaning) {
  EXPECT_TRUE(StatusAfter([] { signal(SIGHUP, SIG_IGN); }, [] { Raise(SIGHUP); }).ok());
}

}  // namespace
}  // namespace prism::launch
