#include "tests/support/job_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/base/file.h"

namespace prism {
namespace {

namespace fs = std::filesystem;

constexpr long kNapNs = 2'000'000;

void Nap() {
  const timespec duration = {.tv_sec = 0, .tv_nsec = kNapNs};
  nanosleep(&duration, nullptr);
}

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds))) {}
  [[nodiscard]] bool over() const { return std::chrono::steady_clock::now() > end_; }

 private:
  using Duration = std::chrono::steady_clock::duration;
  std::chrono::steady_clock::time_point end_;
};

// Parent of a process; 0 when it is gone or a zombie.
pid_t LiveParent(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');  // the name before it may contain anything
  if (end == std::string::npos) {
    return 0;
  }
  std::istringstream rest(text.substr(end + 1));
  std::string state;
  pid_t parent = 0;
  rest >> state >> parent;
  return state == "Z" ? 0 : parent;
}

}  // namespace

RunningCommand::RunningCommand(const std::vector<std::string>& command, std::string output_path)
    : output_path_(std::move(output_path)) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const int output =
      open(output_path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  close(output);
}

RunningCommand::~RunningCommand() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

std::string RunningCommand::Output() const {
  return ReadText(output_path_);
}

bool RunningCommand::WaitForOutput(const std::string& text, double seconds) const {
  const Deadline deadline(seconds);
  while (Output().find(text) == std::string::npos) {
    if (deadline.over() || LiveParent(pid_) == 0) {
      return false;
    }
    Nap();
  }
  return true;
}

Finished RunningCommand::Wait(double seconds) {
  const Deadline deadline(seconds);
  Finished finished;
  while (pid_ > 0 && !deadline.over()) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      break;
    }
    Nap();
  }
  finished.output = Output();
  return finished;
}

Finished RunCommand(const std::vector<std::string>& command) {
  const ScratchFolder folder;
  RunningCommand running(command, folder / "output");
  return running.Wait(600);
}

std::vector<pid_t> Descendants() {
  std::vector<pid_t> all;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      all.push_back(static_cast<pid_t>(std::stol(name)));
    }
  }
  std::vector<pid_t> found = {getpid()};
  for (size_t next = 0; next < found.size(); ++next) {
    for (const pid_t process : all) {
      if (LiveParent(process) == found[next]) {
        found.push_back(process);
      }
    }
  }
  found.erase(found.begin());
  return found;
}

std::string ProcessName(pid_t process) {
  std::error_code ignored;
  return fs::read_symlink("/proc/" + std::to_string(process) + "/exe", ignored).filename().string();
}

std::string ReadText(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? *text : std::string();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool HasPartialOutput(const std::string& path) {
  const std::string prefix = fs::path(path).filename().string() + ".partial";
  const fs::directory_iterator entries(fs::path(path).parent_path());
  return std::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(prefix);
  });
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace prism
