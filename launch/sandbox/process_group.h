// Everything that a sandbox process has started, as one.
#pragma once

#include <sys/types.h>

#include <set>

namespace prism::launch {

// Kills the processes of the group, and removes the shared memory under names that they would leave
// behind (launch/sandbox/named_memory.h). Does not reap.
void KillProcessGroup(pid_t group);

// The same for these processes.
void KillProcesses(const std::set<pid_t>& processes);

// Names of shared memory that are there by now are nobody's of ours.
void NoteMemoryNames();

// From now on this process becomes the parent of what its descendants leave behind, also of what
// has made a session or a group of its own, and names of shared memory that come up may be theirs.
// Returns the children that it has already.
std::set<pid_t> AdoptOrphans();

// Kills and reaps all children of this process but those, and what they have started in turn.
void KillOrphans(const std::set<pid_t>& others);

}  // namespace prism::launch
