// Everything that a sandbox process has started, as one.
#pragma once

#include <sys/types.h>

namespace prism::launch {

// Kills the processes of the group, and removes the shared memory that killed data-loader workers
// of torch would leave behind: a batch on its way lies in /dev/shm under a name with the worker's
// process id (torch_PID_...), and is unlinked by whoever receives it. Does not reap.
void KillProcessGroup(pid_t group);

}  // namespace prism::launch
