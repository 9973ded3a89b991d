#include "launch/emulate/sandbox/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "launch/emulate/sandbox/named_memory.h"
#include "launch/emulate/sandbox/process_group.h"
#include "launch/emulate/sandbox/processes.h"

namespace prism::launch {
namespace {

constexpr pid_t kInOrder = 0;  // instead of a process id: this process ends normally

// The environment of a process that existed a moment ago; "" if it is gone or another user's.
std::string EnvironmentOf(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Repeats until there are none, since some may start others meanwhile.
void KillProcessesWith(const std::string& mark) {
  constexpr int kMaxLooks = 50;  // a process held by a debugger cannot be killed
  for (int look = 0; look < kMaxLooks; ++look) {
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

void CloseFrom(int first) {
  if (close_range(static_cast<unsigned int>(first), ~0U, 0) == 0) {
    return;
  }
  const auto end = static_cast<int>(sysconf(_SC_OPEN_MAX));  // before Linux 5.9
  for (int number = first; number < end; ++number) {
    close(number);
  }
}

// Reads process ids until kInOrder or the end of the channel; false at the latter.
bool ReadPrograms(int channel, std::set<pid_t>* programs) {
  pid_t program = 0;
  ssize_t got = 0;
  while ((got = recv(channel, &program, sizeof(program), MSG_WAITALL)) != 0) {
    if (got < 0 && errno != EINTR) {
      return false;
    }
    if (got == sizeof(program) && program == kInOrder) {
      return true;
    }
    if (got == sizeof(program)) {
      programs->insert(program);
    }
  }
  return false;
}

// In the forked child. Whatever waits for the end of the worker's output must not wait for this
// process.
[[noreturn]] void RunGuard(const std::string& mark, int channel) {
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
  CloseFrom(own_channel + 1);
  NoteMemoryNames();
  std::set<pid_t> programs;
  if (!ReadPrograms(own_channel, &programs)) {
    KillProcessesWith(mark);
    RemoveBatchesOf(programs);
  }
  _exit(0);
}

// Unique, even against a process with the same id in a container.
std::string DrawMark() {
  std::array<uint64_t, 2> drawn = {};
  std::random_device device;
  for (uint64_t& half : drawn) {
    half = uint64_t{device()} << 32U | device();
  }
  return fmt::format("{:016x}{:016x}", drawn[0], drawn[1]);
}

}  // namespace

Guard::Guard() : owner_(getpid()), mark_(DrawMark()) {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return;
  }
  process_ = fork();
  if (process_ == 0) {
    close(ends[1]);
    RunGuard(fmt::format("{}={}", kGuardVariable, mark_), ends[0]);
  }
  close(ends[0]);
  channel_ = ends[1];
}

void Guard::Tell(pid_t program) {
  if (channel_ >= 0) {
    send(channel_, &program, sizeof(program), MSG_NOSIGNAL);
  }
}

Guard::~Guard() {
  if (channel_ < 0 || getpid() != owner_) {
    return;
  }
  Tell(kInOrder);
  close(channel_);
  while (process_ > 0 && waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace prism::launch
