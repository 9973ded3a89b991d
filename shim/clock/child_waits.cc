// waitpid and its kin as the program sees them: they note that a child is still running.
#include "shim/clock/child_waits.h"

#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

#include <cstdint>
#include <utility>

#include "shim/clock/real_time.h"
#include "shim/clock/virtual_clock.h"

namespace prism::shim {
namespace {

// A sleep that begins later has nothing to do with the child.
constexpr int64_t kSleepsWithinNs = 10'000'000;

thread_local int64_t running_ns = 0;  // real time of the answer; 0: none

// `ended` is what a call with WNOHANG returned: 0 if all children in question are running.
template <typename Pid>
Pid Note(int options, Pid ended) {
  if ((options & WNOHANG) != 0) {
    running_ns = ended == 0 ? RealNow(CLOCK_MONOTONIC) : 0;
  }
  return ended;
}

RealFunction<pid_t(pid_t, int*, int)> real_waitpid("waitpid");
RealFunction<pid_t(pid_t, int*, int, rusage*)> real_wait4("wait4");
RealFunction<int(idtype_t, id_t, siginfo_t*, int)> real_waitid("waitid");

}  // namespace

bool TakeRunningChild() {
  const int64_t answered_ns = std::exchange(running_ns, 0);
  return answered_ns != 0 && RealNow(CLOCK_MONOTONIC) - answered_ns < kSleepsWithinNs;
}

}  // namespace prism::shim

PRISM_INTERPOSED pid_t waitpid(pid_t process, int* status, int options) {
  return prism::shim::Note(options, prism::shim::real_waitpid.get()(process, status, options));
}

PRISM_INTERPOSED pid_t wait4(pid_t process, int* status, int options, rusage* usage) noexcept {
  return prism::shim::Note(options, prism::shim::real_wait4.get()(process, status, options, usage));
}

PRISM_INTERPOSED int waitid(idtype_t type, id_t process, siginfo_t* info, int options) {
  const int error = prism::shim::real_waitid.get()(type, process, info, options);
  if (error == 0 && info != nullptr) {
    (void)prism::shim::Note(options, info->si_pid);
  }
  return error;
}
