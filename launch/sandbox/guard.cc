#include "launch/sandbox/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
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
[[noreturn]] void RunGuard(pid_t worker, int channel) {
  setsid();
  prctl(PR_SET_NAME, "prism-guard");
  const int nothing = open("/dev/null", O_RDWR);
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(nothing, number);
  }
  const int own_channel = 3;
  if (channel != own_channel) {
    dup2(channel, own_channel);
  }
  close_range(own_channel + 1, ~0U, 0);
  NoteMemoryNames();
  char in_order = 0;
  ssize_t got = 0;
  while ((got = read(own_channel, &in_order, 1)) < 0 && errno == EINTR) {
  }
  if (got <= 0) {
    KillProgramsOf(worker);
  }
  _exit(0);
}

}  // namespace

Guard::Guard() : owner_(getpid()) {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return;
  }
  process_ = fork();
  if (process_ == 0) {
    close(ends[1]);
    RunGuard(owner_, ends[0]);
  }
  close(ends[0]);
  channel_ = ends[1];
}

Guard::~Guard() {
  if (channel_ < 0 || getpid() != owner_) {
    return;
  }
  const char in_order = 0;
  send(channel_, &in_order, 1, MSG_NOSIGNAL);
  close(channel_);
  while (process_ > 0 && waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace prism::launch
