// Names say nothing about their owner, so what a process has mapped or open is looked up while it
// lives, in /proc; after it was killed nothing could tell. A name that any other process uses, or
// that existed before the run, stays.
#include "launch/emulate/sandbox/named_memory.h"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "launch/emulate/sandbox/processes.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "/dev/shm/";
constexpr std::string_view kTorchPrefix = "torch_";

// A path below the folder is something else (a user's file).
void AddIfNamed(std::string_view path, MemoryNames* names) {
  if (path.starts_with(kFolder) && path.find('/', kFolder.size()) == path.npos &&
      !path.ends_with(" (deleted)")) {
    names->insert(std::string(path.substr(kFolder.size())));
  }
}

void AddMapped(const fs::path& process, MemoryNames* names) {
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find(kFolder);
    AddIfNamed(path == line.npos ? std::string_view() : std::string_view(line).substr(path), names);
  }
}

void AddOpened(const fs::path& process, MemoryNames* names) {
  std::error_code error;
  for (fs::directory_iterator entry(process / "fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    AddIfNamed(fs::read_symlink(entry->path(), gone).string(), names);
  }
}

void Remove(const std::string& name) {
  std::error_code ignored;  // gone already is as good
  fs::remove(std::string(kFolder) + name, ignored);
}

}  // namespace

MemoryNames NamedMemory() {
  MemoryNames names;
  std::error_code error;
  for (fs::directory_iterator entry(kFolder, error), end; !error && entry != end;
       entry.increment(error)) {
    AddIfNamed(entry->path().string(), &names);
  }
  return names;
}

MemoryNames NamedMemoryOf(const std::set<pid_t>& processes) {
  MemoryNames names;
  for (const pid_t process : processes) {
    const fs::path folder = "/proc/" + std::to_string(process);
    AddMapped(folder, &names);
    AddOpened(folder, &names);
  }
  return names;
}

void RemoveNamedMemory(MemoryNames names, const MemoryNames& kept, const std::set<pid_t>& gone) {
  std::erase_if(names, [&](const std::string& name) { return kept.contains(name); });
  if (names.empty()) {
    return;
  }
  const MemoryNames in_use =
      NamedMemoryOf(ProcessesWhere([&](pid_t process) { return !gone.contains(process); }));
  for (const std::string& name : names) {
    if (!in_use.contains(name)) {
      Remove(name);
    }
  }
}

void RemoveBatchesOf(const std::set<pid_t>& processes) {
  for (const std::string& name : NamedMemory()) {
    if (!name.starts_with(kTorchPrefix)) {
      continue;
    }
    const std::string_view rest = std::string_view(name).substr(kTorchPrefix.size());
    if (processes.contains(ProcessNumber(rest.substr(0, rest.find('_'))))) {
      Remove(name);
    }
  }
}

}  // namespace prism::launch
