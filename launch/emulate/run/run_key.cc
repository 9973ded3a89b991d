#include "launch/emulate/run/run_key.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/base/executable.h"
#include "graph/base/input_hashes.h"
#include "launch/inputs/program_command.h"
#include "launch/process/install_paths.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 10'000;
constexpr uintmax_t kLargestSource = uintmax_t{64} << 20;
constexpr size_t kHashDigits = 16;

// Options of a config file that change nothing of what is recorded.
constexpr auto kOtherOptions = std::to_array<std::string_view>(
    {"sandbox_ranks", "on_mismatch", "host_timeout", "perfetto", "trace_ranks", "memory_snapshot",
     "strict", "max_error", "network"});

// Variables of a session, a terminal, a batch system or a launcher; ours are options.
constexpr auto kOtherVariables = std::to_array<std::string_view>({"PRISM_",
                                                                  "SLURM",
                                                                  "SRUN_",
                                                                  "SBATCH_",
                                                                  "SALLOC_",
                                                                  "OMPI_",
                                                                  "OPAL_",
                                                                  "ORTE_",
                                                                  "PMIX_",
                                                                  "PMI_",
                                                                  "SSH_",
                                                                  "XDG_",
                                                                  "TMUX",
                                                                  "DBUS_",
                                                                  "CUDA_VISIBLE_DEVICES=",
                                                                  "GPU_DEVICE_ORDINAL=",
                                                                  "PWD=",
                                                                  "OLDPWD=",
                                                                  "SHLVL=",
                                                                  "_=",
                                                                  "TERM=",
                                                                  "COLUMNS=",
                                                                  "LINES=",
                                                                  "HOSTNAME=",
                                                                  "HOST=",
                                                                  "TMPDIR=",
                                                                  "DISPLAY=",
                                                                  "MAIL=",
                                                                  "HFI_NO_BACKTRACE=",
                                                                  "IPATH_NO_BACKTRACE=",
                                                                  "ENVIRONMENT="});

constexpr auto kSources = std::to_array<std::string_view>(
    {".py", ".sh", ".toml", ".yaml", ".yml", ".json", ".cfg", ".ini"});

// Neither sources nor links to folders of them.
bool IsOtherFolder(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name.starts_with(".") || name == "__pycache__" || name == "site-packages" ||
         name == "node_modules" || name == "prism-out" || entry.is_symlink();
}

bool StartsWithOne(std::string_view text, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](std::string_view begin) { return text.starts_with(begin); });
}

class KeyMaker {
 public:
  explicit KeyMaker(const RunContext& context) : context_(context) {}

  Result<RunKey> Make() {
    AddOptions();
    AddEnvironment();
    for (const auto& [path, hash] : context_.inputs) {
      Add("file " + path, hash);
    }
    PRISM_RETURN_IF_ERROR(AddFile("this build of Prism", "/proc/self/exe"));
    PRISM_RETURN_IF_ERROR(AddFile("this build of Prism's libprism_shim.so", ShimLibrary()));
    if (const auto& torch = context_.paths.torch) {
      Add("torch", HashText(torch->version + "\n" + torch->folder));
      Add("the interpreter", HashText(torch->python_version + "\n" + torch->python));
    }
    PRISM_RETURN_IF_ERROR(context_.options.program.empty()
                              ? AddFile("the built-in program", context_.paths.workload)
                              : AddProgram(context_.options.program));
    if (files_ >= kMostFiles) {
      context_.logger.Warning(
          "--resume looks at {} sources in the script's folder; changes of others go unnoticed",
          kMostFiles);
    }
    return std::move(key_);
  }

 private:
  void Add(std::string name, const std::string& hash) {
    std::ranges::replace_if(name, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
    key_[name] = hash;
  }

  Status AddFile(const std::string& name, const std::string& path) {
    PRISM_ASSIGN_OR_RETURN(const std::string hash, HashOfFile(path));
    Add(name, hash);
    return OkStatus();
  }

  void AddOptions() {
    std::istringstream lines(ConfigText(context_.options, context_.job));
    for (std::string line; std::getline(lines, line);) {
      const size_t name_end = line.find(" = ");
      const std::string name = line.substr(0, name_end);
      if (name_end != line.npos && std::ranges::find(kOtherOptions, name) == kOtherOptions.end()) {
        Add("option " + name, HashText(line));
      }
    }
  }

  void AddEnvironment() {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (!StartsWithOne(text, kOtherVariables) || text.starts_with("SLURM_ARRAY_TASK_ID=")) {
        Add(fmt::format("variable {}", text.substr(0, text.find('='))), HashText(text));
      }
    }
  }

  Status AddProgram(const std::vector<std::string>& program) {
    std::error_code ignored;
    Add("the current folder", HashText(fs::current_path(ignored).string()));
    const std::string found = FindExecutable(program[FirstWordOf(program)]);
    if (!found.empty()) {
      PRISM_RETURN_IF_ERROR(AddFile("program " + found, found));
    }
    for (const std::string& word : program) {
      const std::string path = word.substr(word.starts_with("--") ? word.find('=') + 1 : 0);
      if (fs::is_regular_file(path, ignored)) {
        PRISM_RETURN_IF_ERROR(AddSource(path));
      }
    }
    const std::string script = ProgramScript(program);
    return found.empty() || !script.empty() || std::ranges::count(program, "-m") > 0
               ? AddFolder(fs::path(script).parent_path())
               : OkStatus();
  }

  Status AddSource(const fs::path& path) {
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    const std::string name = "file " + path.string();
    if (size <= kLargestSource) {
      return AddFile(name, path);
    }
    Add(name, HashText(fmt::format("{} {}", size,
                                   fs::last_write_time(path, error).time_since_epoch().count())));
    return OkStatus();
  }

  // In the order of names, so that the same ones are left out where there are too many.
  Status AddFolder(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end;
         !error && at != end && entries.size() < kMostFiles; at.increment(error)) {
      entries.push_back(*at);
    }
    std::ranges::sort(entries);
    for (const fs::directory_entry& entry : entries) {
      if (files_ >= kMostFiles) {
        break;
      }
      if (entry.is_directory(error)) {
        PRISM_RETURN_IF_ERROR(IsOtherFolder(entry) ? OkStatus() : AddFolder(entry.path()));
      } else if (entry.is_regular_file(error) &&
                 std::ranges::find(kSources, entry.path().extension().string()) != kSources.end()) {
        ++files_;
        PRISM_RETURN_IF_ERROR(AddSource(entry.path().lexically_normal()));
      }
    }
    return OkStatus();
  }

  const RunContext& context_;
  RunKey key_;
  size_t files_ = 0;
};

}  // namespace

Result<RunKey> KeyOfRun(const RunContext& context) {
  return KeyMaker(context).Make();
}

std::string DifferenceOf(const RunKey& a, const RunKey& b) {
  std::string first;
  int more = -1;
  const auto look = [&](const RunKey& in, const RunKey& other, bool both) {
    for (const auto& [name, hash] : in) {
      const auto found = other.find(name);
      if (found == other.end() || (both && found->second != hash)) {
        first = first.empty() ? name : first;
        ++more;
      }
    }
  };
  look(a, b, true);
  look(b, a, false);
  return more > 0 ? fmt::format("{} and {} more", first, more) : first;
}

std::string KeyText(const RunKey& key) {
  std::string text;
  for (const auto& [name, hash] : key) {
    text += fmt::format("{} {}\n", hash, name);
  }
  return text;
}

RunKey ReadKeyText(const std::string& text) {
  RunKey key;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > kHashDigits + 1) {
      key[line.substr(kHashDigits + 1)] = line.substr(0, kHashDigits);
    }
  }
  return key;
}

}  // namespace prism::launch
