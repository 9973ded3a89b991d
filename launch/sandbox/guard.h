// Ends what the programs of this process have started, should it be killed by SIGKILL. The programs
// themselves end with it anyway; what they have started does not know of this process.
#pragma once

namespace prism::launch {

// Starts a process of its own, in a session of its own, that waits until this one is gone. It then
// kills each process whose environment says that it belongs to a program of this one
// (kChannelPathVariable), and removes its shared memory. Nothing happens where none can be started:
// then a SIGKILL leaves them behind, as it leaves what has cleared its environment.
void StartGuard();

// "/proc/<this process>/fd/<channel>", in the environment of every program and of what it starts.
inline constexpr const char* kChannelPathVariable = "PRISM_CHANNEL_PATH";

}  // namespace prism::launch
