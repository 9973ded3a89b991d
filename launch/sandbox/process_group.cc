#include "launch/sandbox/process_group.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSharedMemory = "/dev/shm";
constexpr std::string_view kTorchPrefix = "torch_";

pid_t NumberOf(std::string_view text) {
  pid_t number = 0;
  return ParseNumber(text, &number) ? number : 0;
}

std::set<pid_t> MembersOf(pid_t group) {
  std::set<pid_t> members;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const pid_t process = NumberOf(entry->path().filename().string());
    if (process > 0 && getpgid(process) == group) {
      members.insert(process);
    }
  }
  return members;
}

void RemoveSharedMemoryOf(const std::set<pid_t>& processes) {
  std::error_code error;
  for (fs::directory_iterator entry(kSharedMemory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kTorchPrefix)) {
      continue;
    }
    const std::string_view rest = std::string_view(name).substr(kTorchPrefix.size());
    if (processes.contains(NumberOf(rest.substr(0, rest.find('_'))))) {
      std::error_code ignored;  // gone already is as good
      fs::remove(entry->path(), ignored);
    }
  }
}

}  // namespace

void KillProcessGroup(pid_t group) {
  const std::set<pid_t> members = MembersOf(group);
  kill(-group, SIGKILL);
  RemoveSharedMemoryOf(members);
}

}  // namespace prism::launch
