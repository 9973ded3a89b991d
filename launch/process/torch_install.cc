#include "launch/process/torch_install.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "graph/base/split.h"
#include "launch/process/command_output.h"
#include "launch/process/interrupt.h"

namespace prism::launch {
namespace {

constexpr double kMostSeconds = 60;  // a cold network file system may need some
constexpr const char* kOurs = "prism-torch-install ";

// For Python 2 as well. The current folder is not searched, as it is not for a script.
constexpr const char* kQuestion = R"(
import sys
def say(name, value):
    sys.stdout.write('\nprism-torch-install %s %s\n' % (name, value))
if sys.path and sys.path[0] == '':
    del sys.path[0]
say('version', '%d.%d.%d' % tuple(sys.version_info[:3]))
say('executable', sys.executable)
say('prefix', sys.prefix)
try:
    from importlib.util import find_spec
    found = find_spec('torch')
    if found is not None and found.origin:
        say('origin', found.origin)
except ImportError:
    pass
)";

struct Answer {
  std::string version;
  std::string executable;
  std::string prefix;
  std::string origin;  // .../torch/__init__.py
};

Answer ReadAnswer(const std::string& text) {
  Answer answer;
  for (std::string_view line : SplitAt(text, '\n')) {
    if (!line.starts_with(kOurs)) {
      continue;
    }
    line.remove_prefix(std::string_view(kOurs).size());
    const std::string_view name = line.substr(0, line.find(' '));
    for (const auto& [known, value] : {std::pair{"version", &answer.version},
                                       {"executable", &answer.executable},
                                       {"prefix", &answer.prefix},
                                       {"origin", &answer.origin}}) {
      if (name == known) {
        *value = line.substr(std::min(line.size(), name.size() + 1));
      }
    }
  }
  return answer;
}

// The number at that place of "2.8.0+cu128"; -1 if there is none.
int Part(std::string_view version, size_t place) {
  const std::vector<std::string_view> parts = SplitAt(version, '.');
  int number = -1;
  if (place < parts.size()) {
    ParseNumber(parts[place].substr(0, parts[place].find_first_not_of("0123456789")), &number);
  }
  return number;
}

// The text in quotes of the line "NAME = '...'" or "NAME: ... = '...'".
std::string QuotedValue(const std::string& text, std::string_view name) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    const std::string_view rest = line.starts_with(name) ? line.substr(name.size()) : "";
    const size_t begin = rest.find('\'');
    if (begin != rest.npos && (rest.starts_with(" =") || rest.starts_with(":"))) {
      return std::string(rest.substr(begin + 1, rest.find('\'', begin + 1) - begin - 1));
    }
  }
  return "";
}

// Whether a function of libc10 that takes a std::string takes the old one.
bool HasOldStrings(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const Result<MappedFile> library = MappedFile::Open(folder + "/libc10.so");
    if (library.ok()) {
      return library->bytes().find("_ZN3c105ErrorC2ENS_14SourceLocationESs") !=
             std::string_view::npos;
    }
  }
  return false;
}

// Appends base/*/name, or base/name, those that exist.
void AddFolders(const std::filesystem::path& base,
                std::string_view name,
                bool of_each,
                std::vector<std::string>* folders) {
  std::error_code ignored;
  std::vector<std::string> found;
  if (!of_each && std::filesystem::is_directory(base / name, ignored)) {
    found.push_back((base / name).string());
  }
  for (auto entry = std::filesystem::directory_iterator(base, ignored);
       of_each && entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    if (std::filesystem::is_directory(entry->path() / name, ignored)) {
      found.push_back((entry->path() / name).string());
    }
  }
  std::sort(found.begin(), found.end());
  folders->insert(folders->end(), found.begin(), found.end());
}

}  // namespace

std::string TorchInstall::minor() const {
  return fmt::format("{}.{}", Part(version, 0), Part(version, 1));
}

std::string TorchInstall::cuda_major() const {
  return cuda.substr(0, cuda.find('.'));
}

TorchInstall ReadTorchFolder(const std::string& folder, const std::string& prefix) {
  TorchInstall torch;
  torch.folder = folder;
  const Result<std::string> wheel = ReadFile(folder + "/version.py");
  if (wheel.ok()) {
    torch.version = QuotedValue(*wheel, "__version__");
    torch.cuda = QuotedValue(*wheel, "cuda");
  } else if (const Result<std::string> own = ReadFile(folder + "/build-version"); own.ok()) {
    torch.version =
        own->substr(0, own->find_first_of("\r\n"));  // libtorch's archive: "2.8.0+cu128"
    const size_t cuda = torch.version.find("+cu");
    if (cuda != std::string::npos && torch.version.size() > cuda + 4) {
      torch.cuda = torch.version.substr(cuda + 3);
      torch.cuda.insert(torch.cuda.size() - 1, ".");
    }
  }
  const std::filesystem::path site = std::filesystem::path(folder).parent_path();
  const char* const toolkit = std::getenv("CUDA_HOME");
  const std::filesystem::path cuda = toolkit != nullptr ? toolkit : "/usr/local/cuda";
  AddFolders(folder, "lib", false, &torch.library_folders);
  AddFolders(site / "nvidia", "lib", true, &torch.library_folders);
  AddFolders(site / "cusparselt", "lib", false, &torch.library_folders);
  AddFolders(folder, "include", false, &torch.include_folders);
  AddFolders(site / "nvidia", "include", true, &torch.include_folders);
  if (!prefix.empty()) {
    AddFolders(prefix, "lib", false, &torch.library_folders);
    AddFolders(prefix, "include", false, &torch.include_folders);
    AddFolders(prefix, "targets/x86_64-linux/include", false, &torch.include_folders);
  }
  AddFolders(cuda, "lib64", false, &torch.library_folders);
  AddFolders(cuda, "include", false, &torch.include_folders);
  torch.cxx11_abi = !HasOldStrings(torch.library_folders);
  return torch;
}

Result<TorchInstall> AskInterpreter(const std::vector<std::string>& interpreter) {
  std::vector<std::string> command = interpreter;
  command.insert(command.end(), {"-c", kQuestion});
  const CommandOutput output = RunCommand(command, kMostSeconds);
  const std::string name = fmt::format("{}", fmt::join(interpreter, " "));
  if (!output.in_time) {
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    return EnvironmentLacks(
        fmt::format("{} has not said within {:.0f} s where its torch is; try {} -c pass", name,
                    kMostSeconds, name));
  }
  const Answer answer = ReadAnswer(output.text);
  if (answer.version.empty()) {
    const std::string reason = LastLine(output.text);
    return EnvironmentLacks(
        reason.empty()
            ? fmt::format("{} is not found; name a Python that has torch, by its path or "
                          "by a name on PATH",
                          name)
            : fmt::format("{} cannot say where its torch is: {}", name, reason));
  }
  TorchInstall torch;
  if (!answer.origin.empty()) {
    torch =
        ReadTorchFolder(std::filesystem::path(answer.origin).parent_path().string(), answer.prefix);
  }
  torch.python = answer.executable.empty() ? name : answer.executable;
  torch.python_version = answer.version;
  return torch;
}

Status CheckTorch(const TorchInstall& torch) {
  const std::string& python = torch.python;
  const std::string install = fmt::format("{} -m pip install", python);
  if (!python.empty() &&
      (Part(torch.python_version, 0) < 3 || Part(torch.python_version, 1) < kOldestPythonMinor)) {
    return EnvironmentLacks(fmt::format(
        "{} is Python {}, and Prism runs programs of Python 3.{} and later; install one, and in it "
        "torch 2.{} or later",
        python, torch.python_version, kOldestPythonMinor, kOldestTorchMinor));
  }
  if (torch.folder.empty()) {
    return EnvironmentLacks(fmt::format("{} has no torch; install one: {} 'torch>=2.{}'", python,
                                        install, kOldestTorchMinor));
  }
  const int major = Part(torch.version, 0);
  if (major < 0) {
    return EnvironmentLacks(
        fmt::format("{} has no version.py with a version; install torch anew: {} --force-reinstall "
                    "'torch>=2.{}'",
                    torch.folder, install, kOldestTorchMinor));
  }
  if (major < 2 || (major == 2 && Part(torch.version, 1) < kOldestTorchMinor)) {
    return EnvironmentLacks(
        fmt::format("{} is torch {}, and Prism runs programs of torch 2.{} and later; install one: "
                    "{} 'torch>=2.{}'",
                    torch.folder, torch.version, kOldestTorchMinor, install, kOldestTorchMinor));
  }
  if (torch.cuda.empty()) {
    return EnvironmentLacks(fmt::format(
        "{} is torch {}, which is built without CUDA; install one with it, such as "
        "PyPI's for Linux: {} --force-reinstall torch=={}",
        torch.folder, torch.version, install, torch.version.substr(0, torch.version.find('+'))));
  }
  return OkStatus();
}

Result<TorchInstall> FindTorch(const std::string& interpreter) {
  PRISM_ASSIGN_OR_RETURN(TorchInstall torch, AskInterpreter({interpreter}));
  PRISM_RETURN_IF_ERROR(CheckTorch(torch));
  return torch;
}

}  // namespace prism::launch
