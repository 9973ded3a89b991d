#include "launch/emulate/sandbox/process_group.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "launch/emulate/sandbox/named_memory.h"
#include "launch/emulate/sandbox/processes.h"

namespace prism::launch {
namespace {

std::set<pid_t> MembersOf(pid_t group) {
  return ProcessesWhere([&](pid_t process) { return getpgid(process) == group; });
}

// 0 if the process is gone. Its name, in parentheses, may contain anything.
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
  return ProcessesWhere([](pid_t process) { return ParentOf(process) == getpid(); });
}

// Names that existed before the first of our programs are not theirs.
const MemoryNames& NamesBefore() {
  static const MemoryNames names = NamedMemory();
  return names;
}

void RemoveMemory(const MemoryNames& names, const std::set<pid_t>& gone) {
  RemoveNamedMemory(names, NamesBefore(), gone);
  RemoveBatchesOf(gone);
}

}  // namespace

void KillProcessGroup(pid_t group) {
  const std::set<pid_t> members = MembersOf(group);
  const MemoryNames names = NamedMemoryOf(members);
  kill(-group, SIGKILL);
  RemoveMemory(names, members);
}

void KillProcesses(const std::set<pid_t>& processes) {
  const MemoryNames names = NamedMemoryOf(processes);
  for (const pid_t process : processes) {
    kill(process, SIGKILL);
  }
  RemoveMemory(names, processes);
}

void NoteMemoryNames() {
  NamesBefore();
}

std::set<pid_t> AdoptOrphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  NoteMemoryNames();
  return Children();
}

// The children of each killed process become children of this one, so it repeats until none is left
// that it may kill (programs of other users are left alone).
void KillOrphans(const std::set<pid_t>& others) {
  std::set<pid_t> left_alone = others;
  while (true) {
    std::set<pid_t> orphans = Children();
    std::erase_if(orphans, [&](pid_t child) { return left_alone.contains(child); });
    const MemoryNames names = NamedMemoryOf(orphans);
    std::erase_if(orphans, [&](pid_t child) {
      return kill(child, SIGKILL) != 0 && left_alone.insert(child).second;
    });
    if (orphans.empty()) {
      return;
    }
    for (const pid_t orphan : orphans) {
      while (waitpid(orphan, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    RemoveMemory(names, orphans);
  }
}

}  // namespace prism::launch
