// Everything that a sandbox process has started, treated as one.
#pragma once

#include <sys/types.h>

#include <set>

namespace prism::launch {

// Kills the processes of the group, and removes the named shared memory that they would leave
// behind (launch/emulate/sandbox/named_memory.h). Does not reap.
void KillProcessGroup(pid_t group);

// The same for these processes.
void KillProcesses(const std::set<pid_t>& processes);

// Names of shared memory that exist by now are not ours.
void NoteMemoryNames();

// From now on this process becomes the parent of orphans of its descendants, even of those that
// have created their own session or group, and new names of shared memory may be theirs. Returns
// the children that it already has.
std::set<pid_t> AdoptOrphans();

// Kills and reaps all children of this process except `others`, and what these children have
// started.
void KillOrphans(const std::set<pid_t>& others);

}  // namespace prism::launch
