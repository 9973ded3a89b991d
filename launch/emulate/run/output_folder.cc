#include "launch/emulate/run/output_folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemporary = ".partial.";  // then ProcessSpace, "." and the process's number

// Whether it contains nothing but the FAILED file of a failed run.
bool HoldsOnlyFailure(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) || !fs::exists(path / "FAILED", ignored)) {
    return false;
  }
  const fs::directory_iterator entries(path, ignored);
  return std::distance(begin(entries), end(entries)) == 1;
}

// Whether an earlier run of ours created the folder: its run.json names our version (RunJson).
bool IsOurs(const fs::path& path) {
  std::error_code ignored;
  const Result<std::string> run = ReadFile((path / "run.json").string());
  return (run.ok() && run->find("\"prism\": \"") != std::string::npos) || HoldsOnlyFailure(path) ||
         fs::is_empty(path, ignored);
}

// With the folder that a link stands for, also one that does not exist yet: a result replaces no
// link.
OutputChoice WithoutLinks(OutputChoice choice) {
  fs::path path = choice.path;
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);  // which may be absolute
    path = path.has_filename() ? path : path.parent_path();     // "there/"
  }
  choice.path = path.string();
  return choice;
}

// Replacing this folder would remove the user's working directory.
bool HoldsWorkingFolder(const fs::path& path) {
  std::error_code ignored;
  const fs::path target = fs::weakly_canonical(path, ignored);
  for (fs::path at = fs::current_path(ignored); at != at.parent_path(); at = at.parent_path()) {
    if (at == target) {
      return true;
    }
  }
  return !target.empty() && target == target.root_path();  // empty: a name that is too long
}

// Whether the file is in the folder and would not exist in the folder's replacement. If the folder
// is itself an input, it is that of an earlier run.
bool LosesInput(const fs::path& folder, const std::string& input) {
  std::error_code ignored;
  const fs::path inside = fs::weakly_canonical(input, ignored)
                              .lexically_relative(fs::weakly_canonical(folder, ignored));
  if (inside.empty() || inside == "." || *inside.begin() == "..") {
    return false;
  }
  return !IsOurs(folder) || (inside != "graph.prism" && inside != "config.toml");
}

// The nearest folder above `path` that exists.
fs::path ExistingAncestor(const fs::path& path) {
  std::error_code ignored;
  fs::path ancestor = fs::absolute(path, ignored).parent_path();
  while (!ancestor.empty() && ancestor != ancestor.parent_path() &&
         !fs::exists(ancestor, ignored)) {
    ancestor = ancestor.parent_path();
  }
  return ancestor;
}

Status Unusable(const std::string& path, const std::error_code& error) {
  return EnvironmentLacks(
      fmt::format("cannot write {}: {}; use another --out", path, error.message()));
}

// Inode number; 0 if there is nothing.
uint64_t NumberOf(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// The space in which this process's number is unique: its machine and container. Whether a process
// elsewhere that writes to the same file system is alive cannot be known here.
std::string ProcessSpace() {
  std::array<char, HOST_NAME_MAX + 1> host = {};
  gethostname(host.data(), HOST_NAME_MAX);
  return fmt::format("{}.{}", host.data(), NumberOf("/proc/self/ns/pid"));
}

std::string TemporaryName(const std::string& path) {
  return fmt::format("{}{}{}.{}", path, kTemporary, ProcessSpace(), getpid());
}

// Whether a run could begin to write there: makes a folder in `ancestor`, and removes it.
std::error_code TryToWrite(const fs::path& ancestor, const fs::path& path) {
  const fs::path folder = ancestor / TemporaryName(path.filename().string());
  std::error_code error;
  fs::create_directory(folder, error);
  std::error_code ignored;
  fs::remove(folder, ignored);
  return error;
}

// Removes what killed runs of this machine have left beside `path` under their temporary names.
void RemoveLeftovers(const std::string& path) {
  const std::string begin =
      fmt::format("{}{}{}.", fs::path(path).filename().string(), kTemporary, ProcessSpace());
  std::error_code error;
  const fs::path folder = fs::absolute(path, error).parent_path();
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t process = 0;
    if (name.starts_with(begin) &&
        ParseNumber(std::string_view(name).substr(begin.size()), &process) &&
        (process == getpid() || (kill(process, 0) != 0 && errno == ESRCH))) {
      std::error_code ignored;
      fs::remove_all(entry->path(), ignored);
    }
  }
}

// The first of path.2, path.3, ... that does not exist.
std::string FreeNameBeside(const std::string& path) {
  std::error_code ignored;
  int number = 2;
  while (fs::exists(fmt::format("{}.{}", path, number), ignored)) {
    ++number;
  }
  return fmt::format("{}.{}", path, number);
}

}  // namespace

OutputFolder::OutputFolder(OutputChoice choice)
    : choice_(std::move(choice)),
      temporary_(TemporaryName(choice_.path)),
      found_(NumberOf(choice_.path)) {
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : choice_(std::move(other.choice_)),
      temporary_(std::exchange(other.temporary_, {})),
      found_(other.found_) {
}

OutputFolder::~OutputFolder() {
  if (!temporary_.empty()) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

Status OutputFolder::Check(const OutputChoice& given) {
  const OutputChoice choice = WithoutLinks(given);
  std::error_code error;
  if (fs::current_path(error).empty()) {
    return EnvironmentLacks("the current folder does not exist any more; change to another");
  }
  const fs::path path(choice.path);
  if (fs::is_symlink(path, error)) {
    return InvalidArgument(
        fmt::format("--out {} is a link that leads to itself; name a folder", given.path));
  }
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return InvalidArgument(fmt::format(
        "{} {} is not a folder; {}", choice.by_default ? "the default output folder" : "--out",
        choice.path,
        choice.by_default ? "move it away, or use --out" : "name one, or a name that is free"));
  }
  if (HoldsWorkingFolder(path)) {
    return InvalidArgument(
        fmt::format("--out {} contains the current folder; name another folder", choice.path));
  }
  if (fs::exists(path, error) && !choice.force) {
    if (!choice.by_default && !HoldsOnlyFailure(path)) {
      return InvalidArgument(fmt::format("--out {} exists{}", choice.path,
                                         IsOurs(path)
                                             ? "; use --force to replace it, or name another folder"
                                             : " and is not the folder of a run; name another "
                                               "folder (--force would delete everything in it)"));
    }
    if (choice.by_default && !IsOurs(path)) {
      return InvalidArgument(
          fmt::format("the default output folder {} exists but has no run.json of an earlier run; "
                      "move it away, or use --out",
                      choice.path));
    }
  }
  for (const std::string& input : choice.inputs) {
    if (LosesInput(path, input)) {
      return InvalidArgument(
          fmt::format("--out {} would replace {}, which the run reads; name another folder",
                      choice.path, input));
    }
  }
  error = TryToWrite(ExistingAncestor(path), path);
  return error ? Unusable(choice.path, error) : OkStatus();
}

Result<OutputFolder> OutputFolder::Create(const OutputChoice& given) {
  PRISM_RETURN_IF_ERROR(Check(given));
  const OutputChoice choice = WithoutLinks(given);
  OutputFolder folder(choice);
  RemoveLeftovers(choice.path);
  std::error_code error;
  fs::create_directories(folder.temporary_, error);
  if (error) {
    return Unusable(choice.path, error);
  }
  fs::remove(folder.temporary_, error);
  return folder;
}

std::string OutputFolder::TemporaryPath(std::string_view name) const {
  return (fs::path(temporary_) / name).string();
}

Status OutputFolder::Write(std::string_view name, std::string_view content) {
  return WriteBy(name, [&](const std::string& path) { return WriteFileAtomically(path, content); });
}

Status OutputFolder::WriteBy(std::string_view name,
                             const std::function<Status(const std::string&)>& write) {
  const std::string path = TemporaryPath(name);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const Status written =
      error ? RunFailed(fmt::format("cannot write {}: {}", path, error.message())) : write(path);
  if (written.ok()) {
    return written;
  }
  std::string message = written.message();
  if (const size_t at = message.find(temporary_); at != message.npos) {
    message.replace(at, temporary_.size(), choice_.path);
  }
  return {written.code(), message + "; free space, or write elsewhere with --out"};
}

Status OutputFolder::Commit() {
  std::error_code error;
  if (choice_.force || choice_.by_default || HoldsOnlyFailure(choice_.path)) {
    fs::remove_all(choice_.path, error);
  }
  if (!error) {
    fs::rename(temporary_, choice_.path, error);
  }
  if (error == std::errc::directory_not_empty || error == std::errc::file_exists) {
    return CommitBeside();
  }
  if (error) {
    return RunFailed(fmt::format("{}: {}", choice_.path, error.message()));
  }
  temporary_.clear();
  return OkStatus();
}

Status OutputFolder::CommitBeside() {
  const std::string beside = FreeNameBeside(choice_.path);
  std::error_code error;
  fs::rename(temporary_, beside, error);
  if (error) {
    return RunFailed(fmt::format("{}: {}", beside, error.message()));
  }
  temporary_.clear();
  return RunFailed(
      fmt::format("--out {}: another run has written its result there meanwhile; the result of "
                  "this run is in {}",
                  choice_.path, beside));
}

void OutputFolder::CommitFailure(std::string_view text) {
  if (const uint64_t now = NumberOf(choice_.path); now != 0 && now != found_) {
    return;
  }
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  fs::create_directories(temporary_, ignored);
  std::ofstream file(TemporaryPath("FAILED"), std::ios::binary);
  file << text << '\n';
  file.close();
  const Status unused = Commit();
  static_cast<void>(unused);
}

}  // namespace prism::launch
