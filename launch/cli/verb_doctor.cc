// prism doctor: what a run of a command would find here, and what to do about what is missing.
#include <sys/personality.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "graph/base/split.h"
#include "graph/base/units.h"
#include "launch/cli/verb.h"
#include "launch/process/command_output.h"
#include "launch/process/facades.h"
#include "launch/process/program_torch.h"
#include "launch/process/torch_libraries.h"
#include "launch/version.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr double kAnswerSeconds = 20;
constexpr int64_t kSmallSharedMemory = int64_t{256} << 20U;

enum class State { kOk, kNote, kProblem };
constexpr EnumNames<State, 3> kStateNames = {
    {{State::kOk, "ok"}, {State::kNote, "note"}, {State::kProblem, "problem"}}};

struct Finding {
  std::string name;
  std::string value;
  State state = State::kOk;
  std::string advice = "";
};
using Findings = std::vector<Finding>;

std::string FirstLine(const std::vector<std::string>& command) {
  const CommandOutput output = RunCommand(command, kAnswerSeconds);
  return output.exit_code == 0 ? output.text.substr(0, output.text.find('\n')) : "";
}

// "9.10.2" of the numbers that a header defines under these names.
std::string HeaderVersion(const TorchInstall& torch,
                          const std::string& header,
                          const std::array<std::string, 3>& names) {
  for (const std::string& folder : torch.include_folders) {
    const Result<std::string> text = ReadFile(folder + "/" + header);
    std::vector<std::string> numbers;
    for (const std::string& name : names) {
      const size_t at = text.ok() ? text->find("#define " + name + " ") : std::string::npos;
      if (at != std::string::npos) {
        const size_t begin = text->find_first_of("0123456789", at + 9 + name.size());
        numbers.push_back(
            text->substr(begin, text->find_first_not_of("0123456789", begin) - begin));
      }
    }
    if (numbers.size() == names.size()) {
      return fmt::format("{}", fmt::join(numbers, "."));
    }
  }
  return "";
}

// Of the package in the folder with torch, by the name of its dist-info.
std::string PackageVersion(const TorchInstall& torch, const std::string& package) {
  std::error_code ignored;
  const std::string begin = package + "-";
  for (const auto& entry : fs::directory_iterator(fs::path(torch.folder).parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(".dist-info")) {
      return name.substr(begin.size(), name.rfind('.') - begin.size());
    }
  }
  return "";
}

void AddKnown(const std::string& name, const std::string& value, Findings* findings) {
  findings->push_back(
      {name, value.empty() ? "none found" : value, value.empty() ? State::kNote : State::kOk});
}

// What there is of ours for that torch, and whether the rest can be built.
void AddLibraries(const TorchInstall& torch, Findings* findings) {
  const Result<TorchLibraries> libraries = LocateTorchLibraries(torch, {kObserver, kRendezvous});
  const std::string compiler = FindCompiler();
  const std::string version = compiler.empty() ? "" : FirstLine({compiler, "--version"});
  if (!libraries.ok()) {
    findings->push_back({"libraries", "none", State::kProblem, libraries.status().message()});
  } else if (libraries->is_there) {
    findings->push_back(
        {"libraries",
         fmt::format("{} in {}", libraries->is_ready ? "ready" : "built", libraries->folder)});
  } else {
    findings->push_back({"libraries",
                         "will be built once, in about a minute, into " + libraries->folder,
                         State::kNote});
  }
  const bool is_needed = libraries.ok() && !libraries->is_there;
  Finding found = {"compiler", version.empty() ? "none found" : version};
  if (version.empty()) {
    found.state = is_needed ? State::kProblem : State::kNote;
    found.advice =
        "install g++ (Debian, Ubuntu) or gcc-c++ (Fedora, Red Hat), for a torch that "
        "nothing is ready for";
  }
  findings->push_back(std::move(found));
}

void AddTorch(const Result<std::optional<TorchInstall>>& found, Findings* findings) {
  if (!found.ok()) {
    findings->push_back({"python", "of no use", State::kProblem, found.status().message()});
    return;
  }
  if (!*found) {
    findings->push_back({"torch", "the command uses none, as far as can be said", State::kNote,
                         "if it does, name its interpreter in PRISM_PYTHON"});
    return;
  }
  const TorchInstall& torch = **found;
  if (!torch.python.empty()) {
    findings->push_back({"python", fmt::format("{} ({})", torch.python_version, torch.python)});
  }
  const Status usable = CheckTorch(torch);
  findings->push_back(
      {"torch", torch.folder.empty() ? "none" : fmt::format("{} ({})", torch.version, torch.folder),
       usable.ok() ? State::kOk : State::kProblem, usable.message()});
  if (!usable.ok()) {
    return;
  }
  AddKnown("cuda", torch.cuda, findings);
  AddKnown(
      "cudnn",
      HeaderVersion(torch, "cudnn_version.h", {"CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"}),
      findings);
  AddKnown("nccl", HeaderVersion(torch, "nccl.h", {"NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"}),
           findings);
  AddKnown("triton", PackageVersion(torch, "triton"), findings);
  AddLibraries(torch, findings);
}

void AddMachine(Findings* findings) {
  const std::string mpi = FirstLine({"mpirun", "--version"});
  findings->push_back({"mpi", mpi.empty() ? "none found: a run is one process" : mpi,
                       mpi.empty() ? State::kNote : State::kOk});
  std::ifstream driver("/proc/driver/nvidia/version");
  std::string line;
  std::getline(driver, line);
  findings->push_back({"gpu", line.empty() ? "none: the virtual device is used" : line});
  // As a sandbox process does; this one goes on as it was.
  const int before = personality(0xFFFFFFFF);
  const bool is_fixed = before >= 0 && personality(ADDR_NO_RANDOMIZE) >= 0;
  personality(static_cast<unsigned long>(before));
  findings->push_back({"address layout", is_fixed ? "can be fixed" : "cannot be fixed",
                       is_fixed ? State::kOk : State::kNote,
                       is_fixed ? ""
                                : "programs that order by address may differ between runs; "
                                  "allow personality() in the container's seccomp profile"});
  struct statvfs shared = {};
  if (statvfs("/dev/shm", &shared) == 0) {
    const auto bytes = static_cast<int64_t>(shared.f_blocks * shared.f_frsize);
    const bool is_small = bytes < kSmallSharedMemory;
    findings->push_back(
        {"shared memory", FormatBytes(bytes), is_small ? State::kNote : State::kOk,
         is_small ? "data loaders of a program may need more; docker run --shm-size" : ""});
  }
  std::error_code ignored;
  const std::string cache = CacheFolder();
  fs::create_directories(cache, ignored);
  const bool is_writable = !cache.empty() && access(cache.c_str(), W_OK) == 0;
  findings->push_back({"cache", cache.empty() ? "no home" : cache,
                       is_writable ? State::kOk : State::kNote,
                       is_writable ? "" : "cannot be written; name a folder in XDG_CACHE_HOME"});
}

std::string FindingsJson(const Findings& findings, bool is_well) {
  return JsonText([&](JsonWriter& json) {
    json.Field("prism", kVersion).Field("ok", is_well);
    json.ObjectsField("findings", findings, [&](const Finding& finding) {
      json.Field("name", finding.name).Field("state", NameOf(kStateNames, finding.state));
      json.Field("value", finding.value).Field("advice", finding.advice);
    });
  });
}

std::string FindingsText(const Findings& findings) {
  std::string text = VersionText("prism");
  for (const Finding& finding : findings) {
    text += fmt::format("{:<9}{:<16}{}\n", NameOf(kStateNames, finding.state), finding.name,
                        finding.value);
    text += finding.advice.empty() ? "" : fmt::format("{:<25}{}\n", "", finding.advice);
  }
  return text;
}

// Of a command's Python all that it has, even if that is of no use.
Result<std::optional<TorchInstall>> TorchOf(const std::vector<std::string>& command) {
  const std::vector<std::string> python = PythonOf(command);
  if (python.empty()) {
    return FindProgramTorch(command);
  }
  PRISM_ASSIGN_OR_RETURN(TorchInstall torch, AskInterpreter(python));
  return std::optional(std::move(torch));
}

Result<VerbOutput> RunDoctor(const VerbArguments& arguments) {
  std::vector<std::string> command = arguments.operands();
  if (command.empty()) {
    command = {DefaultPython()};
  }
  Findings findings;
  AddTorch(TorchOf(command), &findings);
  AddMachine(&findings);
  const auto problem = std::ranges::find(findings, State::kProblem, &Finding::state);
  VerbOutput output;
  output.text = arguments.as_json() ? FindingsJson(findings, problem == findings.end())
                                    : FindingsText(findings);
  if (problem != findings.end()) {
    output.gate = EnvironmentLacks(
        fmt::format("a run could not start: {}: {}", problem->name, problem->advice));
  }
  return output;
}

}  // namespace

Verb DoctorVerb() {
  Verb verb;
  verb.spec = {
      "doctor",
      "[-- COMMAND...]",
      "what a run would find here: Python, torch, CUDA, MPI, GPU, and what to do",
      "COMMAND is a program as it would follow prism-emulate's --, or only its Python; without one "
      "it\n"
      "is the Python of the built-in job (PRISM_PYTHON). Nothing is started but the interpreter, "
      "which\n"
      "does not import torch. Exit code 5 if a run could not start.\n",
      0,
      4096};
  verb.run = RunDoctor;
  return verb;
}

}  // namespace prism::launch
