// If this process is killed by SIGKILL, ends what its programs have started. The programs
// themselves end with it anyway; their own children do not know of this process.
#pragma once

#include <sys/types.h>

#include <string>

namespace prism::launch {

// A separate process, in its own session, that waits until this one is gone. If this one did not
// end in order, it kills every process that has mark() in its environment, and removes the shared
// memory of these and the batches that programs had in transit. If no guard can be started, a
// SIGKILL leaves them behind, as it always leaves processes that have cleared their environment.
class Guard {
 public:
  Guard();
  ~Guard();  // normal end: the guard's process is gone afterwards
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // The value of kGuardVariable in the environment of every program, and so of what it starts.
  [[nodiscard]] const std::string& mark() const { return mark_; }

  // This process has started that program, which may be gone before the guard can look at it.
  void Watch(pid_t program) { Tell(program); }

 private:
  void Tell(pid_t program);

  pid_t owner_;
  std::string mark_;
  pid_t process_ = -1;
  int channel_ = -1;  // closes when this process is gone
};

inline constexpr const char* kGuardVariable = "PRISM_GUARD";

}  // namespace prism::launch
