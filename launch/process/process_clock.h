// How long another process has run for, of its own: what else the machine does has little
// influence.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <algorithm>

#include "launch/process/stop_watch.h"

namespace prism::launch {

// Since it was made.
class ProcessClock {
 public:
  explicit ProcessClock(pid_t process) : process_(process), begin_(Read()), latest_(begin_) {}

  // CPU seconds of all threads, or one for each `idleness` seconds in which they did nothing.
  double Seconds(double idleness) {
    latest_ = std::max(latest_, Read());
    return std::max(latest_ - begin_, watch_.Seconds() / idleness);
  }

  // CPU seconds that the process had taken before.
  [[nodiscard]] double begin() const { return begin_; }

 private:
  // 0 once the process has gone.
  [[nodiscard]] double Read() const {
    clockid_t clock = 0;
    timespec time = {};
    if (clock_getcpuclockid(process_, &clock) != 0 || clock_gettime(clock, &time) != 0) {
      return 0;
    }
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }

  pid_t process_;
  StopWatch watch_;
  double begin_;
  double latest_;
};

}  // namespace prism::launch
