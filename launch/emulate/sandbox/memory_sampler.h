// How much memory a run really takes: the highest sum of proportional set sizes over our processes
// and everything they started, sampled by a separate thread: a few times a second, or less often so
// that it costs no more than a few percent of a core.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace prism::launch {

class MemorySampler {
 public:
  MemorySampler();   // starts with only this process
  ~MemorySampler();  // stops
  MemorySampler(const MemorySampler&) = delete;
  MemorySampler& operator=(const MemorySampler&) = delete;

  // Adds another process of the run on this machine, with everything that it starts.
  void Watch(pid_t process);

  [[nodiscard]] int64_t max_bytes() const { return max_bytes_.load(); }

 private:
  void Sample();

  std::mutex mutex_;
  std::vector<pid_t> roots_;
  std::atomic<int64_t> max_bytes_{0};
  std::jthread thread_;  // last: stops before the members it uses go away
};

}  // namespace prism::launch
