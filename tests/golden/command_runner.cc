#include "tests/golden/command_runner.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "graph/base/file.h"

namespace prism::testing {
namespace {

namespace fs = std::filesystem;

// Redirects a descriptor of the child to a fresh file.
void Redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  dup2(file, descriptor);
}

// The environment without variables that would change our programs' behaviour.
std::vector<std::string> CleanEnvironment(const std::string& path) {
  std::vector<std::string> result = {"PATH=" + path};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("PATH=") && !text.starts_with("PRISM_")) {
      result.push_back(text);
    }
  }
  return result;
}

[[noreturn]] void RunChild(const std::string& command,
                           const std::string& folder,
                           std::vector<std::string> environment) {
  std::vector<char*> entries;
  for (std::string& entry : environment) {
    entries.push_back(entry.data());
  }
  entries.push_back(nullptr);
  if (chdir((folder + "/work").c_str()) != 0) {
    _exit(126);
  }
  Redirect("/dev/null", STDIN_FILENO);
  Redirect(folder + "/stdout", STDOUT_FILENO);
  Redirect(folder + "/stderr", STDERR_FILENO);
  std::string shell = "sh";
  std::string option = "-c";
  std::string text = command;
  char* const arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  execve("/bin/sh", arguments, entries.data());
  _exit(127);
}

}  // namespace

CommandFolder::CommandFolder(const std::string& path) {
  std::string name = (fs::temp_directory_path() / "prism-golden-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    std::abort();
  }
  folder_ = name;
  fs::create_directory(folder_ + "/work");
  const char* const machine = std::getenv("PATH");
  path_ = path + ":" + (machine == nullptr ? "/usr/bin:/bin" : machine);
}

CommandFolder::~CommandFolder() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

CommandOutput CommandFolder::Run(const std::string& command) const {
  const pid_t process = fork();
  if (process == 0) {
    RunChild(command, folder_, CleanEnvironment(path_));
  }
  CommandOutput output;
  int state = 0;
  if (process > 0 && waitpid(process, &state, 0) == process) {
    output.exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  }
  output.standard_output = WithoutFolder(ReadWhole(folder_ + "/stdout"));
  output.standard_error = WithoutFolder(ReadWhole(folder_ + "/stderr"));
  return output;
}

std::string CommandFolder::WithoutFolder(std::string text) const {
  const std::string work = folder_ + "/work";
  for (size_t at = text.find(work); at != text.npos; at = text.find(work, at)) {
    text.replace(at, work.size(), "FOLDER");
  }
  return text;
}

std::string ReadWhole(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? *text : std::string();
}

}  // namespace prism::testing
