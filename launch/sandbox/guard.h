// Ends what the programs of this process have started, should it be killed by SIGKILL. The programs
// themselves end with it anyway; what they have started does not know of this process.
#pragma once

#include <sys/types.h>

#include <string>

namespace prism::launch {

// A process of its own, in a session of its own, that waits until this one is gone. Where this one
// did not end in order, it kills each process that has mark() in its environment, and removes its
// shared memory and the batches that programs had on their way. Nothing happens where none can be
// started: then a SIGKILL leaves them behind, as it leaves what has cleared its environment.
class Guard {
 public:
  Guard();
  ~Guard();  // an end in order: the guard's process is gone behind it
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // What kGuardVariable has to be in the environment of every program, and so of what it starts.
  [[nodiscard]] const std::string& mark() const { return mark_; }

  // This process has started that program, which may be gone before the guard can look at it.
  void Watch(pid_t program) { Tell(program); }

 private:
  void Tell(pid_t program);

  pid_t owner_;
  std::string mark_;
  pid_t process_ = -1;
  int channel_ = -1;  // whose end tells that this process is gone
};

inline constexpr const char* kGuardVariable = "PRISM_GUARD";

}  // namespace prism::launch
