// Shared memory with a name (shm_open) that killed processes leave behind: the next run of the
// program would find its name taken.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace prism::launch {

using MemoryNames = std::set<std::string>;

// All names that there are.
MemoryNames NamedMemory();

// Those that the processes have mapped or opened.
MemoryNames NamedMemoryOf(const std::set<pid_t>& processes);

// Removes the names but those in `kept` and those that a process outside of `gone` has.
void RemoveNamedMemory(MemoryNames names, const MemoryNames& kept, const std::set<pid_t>& gone);

// Removes the batches that killed data-loader workers of torch had on their way: such a name
// (torch_PID_...) is nobody's until whoever receives the batch opens and unlinks it.
void RemoveBatchesOf(const std::set<pid_t>& processes);

}  // namespace prism::launch
