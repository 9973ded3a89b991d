// Ends what the programs of this process have started, should it be killed by SIGKILL. The programs
// themselves end with it anyway; what they have started does not know of this process.
#pragma once

#include <sys/types.h>

namespace prism::launch {

// A process of its own, in a session of its own, that waits until this one is gone. Where this one
// did not end in order, it kills each process whose environment says that it belongs to a program
// of this one (kChannelPathVariable), and removes its shared memory. Nothing happens where none can
// be started: then a SIGKILL leaves them behind, as it leaves what has cleared its environment.
class Guard {
 public:
  Guard();
  ~Guard();  // an end in order: the guard's process is gone behind it
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  pid_t owner_;
  pid_t process_ = -1;
  int channel_ = -1;  // whose end tells that this process is gone
};

// "/proc/<this process>/fd/<channel>", in the environment of every program and of what it starts.
inline constexpr const char* kChannelPathVariable = "PRISM_CHANNEL_PATH";

}  // namespace prism::launch
