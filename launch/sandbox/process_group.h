// Everything that a sandbox process has started, as one.
#pragma once

#include <sys/types.h>

#include <set>

namespace prism::launch {

// Kills the processes of the group, and removes the shared memory that killed data-loader workers
// of torch would leave behind: a batch on its way lies in /dev/shm under a name with the worker's
// process id (torch_PID_...), and is unlinked by whoever receives it. Does not reap.
void KillProcessGroup(pid_t group);

// From now on this process becomes the parent of what its descendants leave behind, also of what
// has made a session or a group of its own. Returns the children that it has already.
std::set<pid_t> AdoptOrphans();

// Kills and reaps all children of this process but those, and what they have started in turn.
void KillOrphans(const std::set<pid_t>& others);

}  // namespace prism::launch
