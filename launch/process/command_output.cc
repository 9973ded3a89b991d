#include "launch/process/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "graph/base/split.h"
#include "launch/process/interrupt.h"
#include "launch/process/stop_watch.h"

namespace prism::launch {
namespace {

constexpr size_t kMaxOutputBytes = size_t{1} << 20U;
constexpr int kLookMs = 50;  // between looks at the time and at interrupts
constexpr int kNotStarted = 127;

// In the forked child: only calls that are safe there.
[[noreturn]] void BecomeCommand(char* const* words, int output, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (getppid() == parent && nothing >= 0) {
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execvp(words[0], words);
  }
  _exit(kNotStarted);
}

// Reads until the other side is closed. False if that took too long or this process is to end.
bool ReadAll(int descriptor, double seconds, std::string* text) {
  const StopWatch watch;
  std::array<char, 4096> buffer = {};
  while (watch.Seconds() < seconds && InterruptStatus().ok()) {
    pollfd readable = {.fd = descriptor, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kLookMs) <= 0) {
      continue;
    }
    const ssize_t bytes = read(descriptor, buffer.data(), buffer.size());
    if (bytes == 0 || (bytes < 0 && errno != EINTR)) {
      return true;
    }
    const size_t room = kMaxOutputBytes - text->size();
    text->append(buffer.data(), std::min(room, static_cast<size_t>(std::max<ssize_t>(bytes, 0))));
  }
  return false;
}

}  // namespace

CommandOutput RunCommand(const std::vector<std::string>& command, double seconds) {
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  CommandOutput output;
  std::array<int, 2> ends = {};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    output.exit_code = kNotStarted;
    return output;
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    BecomeCommand(pointers.data(), ends[1], parent);
  }
  close(ends[1]);
  if (child > 0) {
    setpgid(child, child);  // whoever is first
    output.in_time = ReadAll(ends[0], seconds, &output.text);
    if (!output.in_time) {
      kill(-child, SIGKILL);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  } else {
    output.exit_code = kNotStarted;
  }
  close(ends[0]);
  return output;
}

std::string LastLine(const std::string& text) {
  std::string_view last;
  for (const std::string_view line : SplitAt(text, '\n')) {
    last = line.find_first_not_of(" \t\r") == line.npos ? last : line;
  }
  return std::string(last);
}

}  // namespace prism::launch
