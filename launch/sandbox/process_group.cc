#include "launch/sandbox/process_group.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
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

// Of one that is gone: 0. Its name, in parentheses, may hold anything.
pid_t ParentOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  const size_t name_end = text.rfind(')');
  pid_t parent = 0;
  if (name_end != text.npos) {
    char state = 0;
    std::istringstream(text.substr(name_end + 1)) >> state >> parent;
  }
  return parent;
}

std::set<pid_t> Children() {
  std::set<pid_t> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const pid_t process = NumberOf(entry->path().filename().string());
    if (process > 0 && ParentOf(process) == getpid()) {
      children.insert(process);
    }
  }
  return children;
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

std::set<pid_t> AdoptOrphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return Children();
}

// Each that goes hands its own children to this process: until there are none that it may end (a
// program of another user's is left alone).
void KillOrphans(const std::set<pid_t>& others) {
  std::set<pid_t> left_alone = others;
  while (true) {
    std::set<pid_t> orphans = Children();
    std::erase_if(orphans, [&](pid_t child) {
      return left_alone.contains(child) ||
             (kill(child, SIGKILL) != 0 && left_alone.insert(child).second);
    });
    if (orphans.empty()) {
      return;
    }
    for (const pid_t orphan : orphans) {
      while (waitpid(orphan, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    RemoveSharedMemoryOf(orphans);
  }
}

}  // namespace prism::launch
