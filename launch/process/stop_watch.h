// How long something took, for people and for run.json; no result depends on it.
#pragma once

#include <sys/resource.h>

#include <chrono>

namespace prism::launch {

// Since it was made.
class StopWatch {
 public:
  [[nodiscard]] double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  // CPU seconds of all threads of this process, which leaves out whatever else the machine does.
  [[nodiscard]] double CpuSeconds() const { return ProcessSeconds() - cpu_begin_; }

 private:
  static double ProcessSeconds() {
    struct rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double cpu_begin_ = ProcessSeconds();
};

}  // namespace prism::launch
