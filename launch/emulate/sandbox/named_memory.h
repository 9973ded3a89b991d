// Shared memory with a name (shm_open) that killed processes leave behind: the next run of the
// program would find the name taken.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace prism::launch {

using MemoryNames = std::set<std::string>;

// All existing names.
MemoryNames NamedMemory();

// Those that the processes have mapped or opened.
MemoryNames NamedMemoryOf(const std::set<pid_t>& processes);

// Removes the names except those in `kept` and those that a process outside `gone` has open.
void RemoveNamedMemory(MemoryNames names, const MemoryNames& kept, const std::set<pid_t>& gone);

// Removes the batches that killed data-loader workers of torch had in transit: nobody has such a
// name (torch_PID_...) open until the receiver of the batch opens and unlinks it.
void RemoveBatchesOf(const std::set<pid_t>& processes);

}  // namespace prism::launch
