#include "launch/process/torch_libraries.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/executable.h"
#include "graph/base/file.h"
#include "graph/base/hash.h"
#include "graph/base/split.h"
#include "launch/process/command_output.h"
#include "launch/process/facades.h"
#include "launch/process/install_paths.h"
#include "launch/process/interrupt.h"
#include "launch/version.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr double kMostBuildSeconds = 3600;
constexpr int kBuildSecondsEach = 30;  // of a file, about, on one core of today
constexpr useconds_t kLockNapUs = 100'000;
constexpr const char* kSourceList = "launch/process/torch_sources.txt";
constexpr const char* kBuildScript = "launch/process/build_for_torch.sh";

// Folders of torch's headers that our sources include from, besides c10d's own.
constexpr std::string_view kHeaderFolders[] = {
    "torch/csrc/distributed/c10d", "ATen", "ATen/core", "c10/core", "c10/cuda", "c10/util"};

// Headers that a build needs, and the package of NVIDIA that brings them.
struct NeededHeader {
  const char* path;
  const char* package;
};
constexpr NeededHeader kNeededHeaders[] = {
    {"torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp", "torch"},
    {"cuda_runtime_api.h", "nvidia-cuda-runtime"},
    {"cublas_v2.h", "nvidia-cublas"},
    {"cusolverDn.h", "nvidia-cusolver"},
    {"cusparse.h", "nvidia-cusparse"},
    {"nccl.h", "nvidia-nccl"}};

std::string SourceRoot() {
  return InstallRoot() + "/src";
}

// "2.8.0", "2.8.0+cu128": what PyTorch itself releases, whose headers a version stands for.
bool IsRelease(const TorchInstall& torch) {
  const std::string_view version(torch.version);
  const size_t local = version.find('+');
  return version.substr(0, local).find_first_not_of("0123456789.") == version.npos &&
         (local == version.npos || version.substr(local).starts_with("+cu"));
}

bool HasAll(const std::string& folder, const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [&](const std::string& name) {
    return access((folder + "/" + name).c_str(), R_OK) == 0;
  });
}

// Adds the files of a folder whose names end like that, in the order of their names.
void AddFiles(const fs::path& folder, const std::set<std::string>& ends, Hasher* hash) {
  std::error_code ignored;
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (ends.contains(entry.path().extension().string())) {
      files.insert(entry.path().string());
    }
  }
  for (const std::string& file : files) {
    const Result<std::string> text = ReadFile(file);
    hash->AddString(fs::path(file).filename().string());
    hash->AddString(text.ok() ? *text : "");
  }
}

// Our sources, how they are built, and the headers beside them and under graph/ and shim/.
Status AddSources(Hasher* hash) {
  const Result<std::string> list = ReadFile(SourceRoot() + "/" + kSourceList);
  if (!list.ok()) {
    return EnvironmentLacks(
        fmt::format("{}/{} is missing, without which nothing can be built for another torch; "
                    "install Prism anew",
                    SourceRoot(), kSourceList));
  }
  hash->AddString(*list);
  const Result<std::string> script = ReadFile(SourceRoot() + "/" + kBuildScript);
  hash->AddString(script.ok() ? *script : "");
  std::set<std::string> folders = {"graph/base", "graph/job", "shim/channel", "shim/nccl"};
  for (const std::string_view line : SplitAt(*list, '\n')) {
    const size_t source = line.find(' ');
    if (!line.starts_with('#') && source != line.npos) {
      folders.insert(fs::path(line.substr(source + 1)).parent_path().string());
    }
  }
  for (const std::string& folder : folders) {
    const bool has_sources = folder.starts_with("shim/") || folder == "launch/trainer";
    AddFiles(fs::path(SourceRoot()) / folder,
             has_sources ? std::set<std::string>{".h", ".cc", ".py"} : std::set<std::string>{".h"},
             hash);
  }
  return OkStatus();
}

// Other processes that want the same wait for the one that holds it. Where a file system has no
// locks, all build.
class BuildLock {
 public:
  explicit BuildLock(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  ~BuildLock() {
    if (file_ >= 0) {
      close(file_);
    }
  }
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

  Status Take() const {
    while (file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      PRISM_RETURN_IF_ERROR(InterruptStatus());
      usleep(kLockNapUs);
    }
    return OkStatus();
  }

 private:
  int file_;
};

// The folder in which files come to be; removed with what is left in it.
struct BuildFolder {
  explicit BuildFolder(std::string folder) : path(std::move(folder)) {}
  ~BuildFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  BuildFolder(const BuildFolder&) = delete;
  BuildFolder& operator=(const BuildFolder&) = delete;

  const std::string path;
};

std::string TorchText(const TorchInstall& torch) {
  return fmt::format("torch {} (CUDA {})", torch.version, torch.cuda);
}

Status CheckHeaders(const TorchInstall& torch) {
  for (const NeededHeader& header : kNeededHeaders) {
    const bool is_there =
        std::ranges::any_of(torch.include_folders, [&](const std::string& folder) {
          return access((folder + "/" + header.path).c_str(), R_OK) == 0;
        });
    if (!is_there) {
      const bool is_nvidia = std::string_view(header.package) != "torch";
      return EnvironmentLacks(fmt::format(
          "nothing of Prism is ready for {}, and to build it {} is missing; install {}{}",
          TorchText(torch), header.path, header.package,
          is_nvidia ? fmt::format("-cu{} with pip, or name the CUDA toolkit in CUDA_HOME",
                                  torch.cuda_major())
                    : " with its headers"));
    }
  }
  return OkStatus();
}

// The first line of a compiler's that names an error, else its last one.
std::string ReasonIn(const std::string& text) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    if (line.find("error") != line.npos) {
      return std::string(line);
    }
  }
  return LastLine(text);
}

Status Build(const TorchInstall& torch,
             const std::vector<std::string>& names,
             const std::string& folder) {
  const std::string compiler = FindCompiler();
  if (compiler.empty()) {
    return EnvironmentLacks(fmt::format(
        "nothing of Prism is ready for {}, and there is no C++ compiler to build it; install one: "
        "g++ of Debian and Ubuntu, gcc-c++ of Fedora and Red Hat",
        TorchText(torch)));
  }
  PRISM_RETURN_IF_ERROR(CheckHeaders(torch));
  const BuildFolder part(fmt::format("{}.{}.part", folder, getpid()));
  std::error_code failure;
  fs::create_directories(part.path, failure);
  fs::create_directories(folder, failure);
  if (failure) {
    return EnvironmentLacks(
        fmt::format("{} cannot be written: {}; name another place in "
                    "XDG_CACHE_HOME",
                    folder, failure.message()));
  }
  fmt::print(stderr, "prism: building {} for {} once, about {} s\n", fmt::join(names, " and "),
             TorchText(torch), kBuildSecondsEach * static_cast<int>(names.size()));
  std::vector<std::string> command = {"env",
                                      "CXX=" + compiler,
                                      "/bin/sh",
                                      SourceRoot() + "/" + kBuildScript,
                                      part.path,
                                      torch.cxx11_abi ? "1" : "0",
                                      fmt::format("{}", fmt::join(torch.include_folders, ":"))};
  command.insert(command.end(), names.begin(), names.end());
  const CommandOutput output = RunCommand(command, kMostBuildSeconds);
  PRISM_RETURN_IF_ERROR(InterruptStatus());
  if (output.exit_code != 0 || !HasAll(part.path, names)) {
    return EnvironmentLacks(fmt::format("{} could not build {} for {}: {}", compiler,
                                        fmt::join(names, " and "), TorchText(torch),
                                        ReasonIn(output.text)));
  }
  for (const std::string& name : names) {
    fs::rename(part.path + "/" + name, folder + "/" + name, failure);
    if (failure) {
      return EnvironmentLacks(
          fmt::format("{}/{} cannot be written: {}", folder, name, failure.message()));
    }
  }
  return OkStatus();
}

}  // namespace

std::string ReadyName(const TorchInstall& torch) {
  return fmt::format("torch-{}-cu{}{}", torch.minor(), torch.cuda_major(),
                     torch.cxx11_abi ? "" : "-oldabi");
}

Result<std::string> CacheName(const TorchInstall& torch) {
  Hasher hash;
  hash.AddString(torch.version);
  hash.AddString(torch.cuda);
  hash.Add(torch.cxx11_abi ? 1 : 0);
  for (const std::string_view folder : kHeaderFolders) {
    AddFiles(fs::path(torch.folder) / "include" / folder, {".h", ".hpp"}, &hash);
  }
  PRISM_RETURN_IF_ERROR(AddSources(&hash));
  std::string version = torch.version;
  std::ranges::replace_if(
      version,
      [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '+';
      },
      '_');
  return fmt::format("torch-{}-{:016x}", version, hash.Digest());
}

Result<TorchLibraries> LocateTorchLibraries(const TorchInstall& torch,
                                            const std::vector<std::string>& names) {
  const std::string ready = LibraryFolder() + "/" + ReadyName(torch);
  if (IsRelease(torch) && HasAll(ready, names)) {
    return TorchLibraries{.folder = ready, .is_ready = true, .is_there = true};
  }
  const std::string cache = CacheFolder();
  if (cache.empty()) {
    return EnvironmentLacks(
        fmt::format("nothing of Prism is ready for {}, and there is no place to keep what would be "
                    "built; name a folder in XDG_CACHE_HOME",
                    TorchText(torch)));
  }
  PRISM_ASSIGN_OR_RETURN(const std::string name, CacheName(torch));
  const std::string folder = cache + "/" + name;
  return TorchLibraries{.folder = folder, .is_ready = false, .is_there = HasAll(folder, names)};
}

Result<std::string> ProvideTorchLibraries(const TorchInstall& torch,
                                          const std::vector<std::string>& names) {
  PRISM_ASSIGN_OR_RETURN(const TorchLibraries libraries, LocateTorchLibraries(torch, names));
  if (libraries.is_there) {
    return libraries.folder;
  }
  std::error_code failure;
  fs::create_directories(CacheFolder(), failure);
  const BuildLock lock(libraries.folder + ".lock");
  PRISM_RETURN_IF_ERROR(lock.Take());
  if (!HasAll(libraries.folder, names)) {
    PRISM_RETURN_IF_ERROR(Build(torch, names, libraries.folder));
  }
  return libraries.folder;
}

std::string FindCompiler() {
  const char* const chosen = std::getenv("CXX");
  if (chosen != nullptr && *chosen != '\0') {
    return chosen;
  }
  for (const char* const name : {"c++", "g++", "clang++"}) {
    if (!FindExecutable(name).empty()) {
      return name;
    }
  }
  return "";
}

std::string VersionText(const std::string& program) {
  std::error_code ignored;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(LibraryFolder(), ignored)) {
    if (const std::string name = entry.path().filename().string(); name.starts_with("torch-")) {
      names.insert(name.substr(std::string_view("torch-").size()));
    }
  }
  const std::string commit(kCommit);
  return fmt::format("{} {}{}\nbuilt for torch {}\n", program, kVersion,
                     commit.empty() ? "" : fmt::format(" ({})", commit),
                     names.empty() ? "of no release" : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace prism::launch
