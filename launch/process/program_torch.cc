#include "launch/process/program_torch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "graph/base/executable.h"
#include "graph/base/file.h"
#include "graph/base/split.h"
#include "launch/process/command_output.h"
#include "launch/process/install_paths.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr double kLoaderSeconds = 20;
constexpr size_t kFirstLineBytes = 511;

// "python", "python3.13t"; a link of another name that leads to one.
bool IsPythonName(std::string_view name) {
  return name.starts_with("python") && name.find_first_not_of("0123456789.t", 6) == name.npos;
}

bool IsPython(const std::string& word) {
  std::error_code ignored;
  const fs::path path = FindExecutable(word);
  return IsPythonName(fs::path(word).filename().string()) ||
         (!path.empty() && IsPythonName(fs::canonical(path, ignored).filename().string()));
}

// The words of a script's first line; empty for another kind of file.
std::vector<std::string> FirstLineOf(const std::string& file) {
  const std::string text = ReadBeginning(file, kFirstLineBytes);
  std::vector<std::string> words;
  if (text.starts_with("#!")) {
    std::istringstream line(text.substr(2, text.find('\n') - 2));
    for (std::string word; line >> word;) {
      words.push_back(word);
    }
  }
  return words;
}

// The folder of the libtorch that the loader would give a program; "" if it links none.
std::string LinkedTorch(const std::string& file) {
  const CommandOutput output =
      RunCommand({"/lib64/ld-linux-x86-64.so.2", "--list", file}, kLoaderSeconds);
  for (const std::string_view line : SplitAt(output.text, '\n')) {
    const size_t path = line.find("/");
    const size_t end = line.find("/libtorch_cpu.so (");
    if (line.find("libtorch_cpu.so => ") != line.npos && end != line.npos) {
      return fs::path(line.substr(path, end - path)).parent_path().string();
    }
  }
  return "";
}

}  // namespace

std::string DefaultPython() {
  if (const char* const chosen = std::getenv("PRISM_PYTHON"); chosen != nullptr) {
    return chosen;
  }
  const std::string own = InstallRoot() + "/../.venv/bin/python";
  return access(own.c_str(), X_OK) == 0 ? fs::path(own).lexically_normal().string() : "python3";
}

std::vector<std::string> PythonOf(const std::vector<std::string>& command) {
  const std::string name = fs::path(command[0]).filename().string();
  const auto last = StartsAnother(name) ? command.end() : command.begin() + 1;
  const auto python = std::find_if(command.begin(), last, IsPython);
  if (python != last) {
    return {command.begin(), python + 1};
  }
  std::vector<std::string> line = FirstLineOf(FindExecutable(command[0]));
  const auto interpreter = std::ranges::find_if(line, IsPython);
  line.erase(interpreter == line.end() ? line.begin() : interpreter + 1, line.end());
  return line;
}

Result<std::optional<TorchInstall>> FindProgramTorch(const std::vector<std::string>& command) {
  const std::vector<std::string> python = PythonOf(command);
  if (!python.empty()) {
    PRISM_ASSIGN_OR_RETURN(TorchInstall torch, AskInterpreter(python));
    PRISM_RETURN_IF_ERROR(CheckTorch(torch));
    return std::optional(std::move(torch));
  }
  const std::string file = FindExecutable(command[0]);
  std::optional<TorchInstall> torch;
  if (!FirstLineOf(file).empty()) {
    const Result<TorchInstall> found = AskInterpreter({DefaultPython()});
    if (found.ok() && CheckTorch(*found).ok()) {
      torch = *found;
    }
  } else if (const std::string folder = LinkedTorch(file); !folder.empty()) {
    torch = ReadTorchFolder(folder, "");
    PRISM_RETURN_IF_ERROR(CheckTorch(*torch));
  }
  return torch;
}

}  // namespace prism::launch
