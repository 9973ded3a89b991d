#include "launch/sandbox/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "launch/sandbox/process_group.h"
#include "launch/sandbox/processes.h"

namespace prism::launch {
namespace {

// Of a process that was there a moment ago; "" of one that is gone or another user's.
std::string EnvironmentOf(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Those of the worker's programs. Some may start others meanwhile: until there are none.
void KillProgramsOf(pid_t worker) {
  constexpr int kMostLooks = 50;  // what a debugger holds cannot be killed
  const std::string mark = fmt::format("{}=/proc/{}/", kChannelPathVariable, worker);
  for (int look = 0; look < kMostLooks; ++look) {
    const std::set<pid_t> programs = ProcessesWhere([&](pid_t process) {
      return process != getpid() && EnvironmentOf(process).find(mark) != std::string::npos;
    });
    if (programs.empty()) {
      return;
    }
    KillProcesses(programs);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// In the forked child. Whoever waits for the end of the worker's output must not wait for this one.
[[noreturn]] void Guard(pid_t worker, int end_of_worker) {
  setsid();
  prctl(PR_SET_NAME, "prism-guard");
  const int nothing = open("/dev/null", O_RDWR);
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(nothing, number);
  }
  const int pipe_end = 3;
  if (end_of_worker != pipe_end) {
    dup2(end_of_worker, pipe_end);
  }
  close_range(pipe_end + 1, ~0U, 0);
  NoteMemoryNames();
  char byte = 0;
  while (read(pipe_end, &byte, 1) < 0 && errno == EINTR) {
  }
  KillProgramsOf(worker);
  _exit(0);
}

}  // namespace

void StartGuard() {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return;
  }
  const pid_t worker = getpid();
  const pid_t guard = fork();
  if (guard == 0) {
    close(ends[1]);
    Guard(worker, ends[0]);
  }
  close(ends[0]);
  if (guard < 0) {
    close(ends[1]);
  }
}

}  // namespace prism::launch
