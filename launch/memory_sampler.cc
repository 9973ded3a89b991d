#include "launch/memory_sampler.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <set>
#include <string>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// Reading one smaps_rollup walks the process's page tables, some milliseconds for libtorch.
constexpr std::chrono::milliseconds kPeriod(400);

// "Pss:   123456 kB" of a process; 0 when it has left.
int64_t ProportionalBytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", process));
  std::string word;
  while (file >> word) {
    if (word == "Pss:") {
      int64_t kilobytes = 0;
      file >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return 0;
}

void AddDescendants(pid_t process, std::set<pid_t>* found) {
  std::vector<pid_t> pending = {process};
  while (!pending.empty()) {
    const pid_t next = pending.back();
    pending.pop_back();
    if (!found->insert(next).second) {
      continue;
    }
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", next));
    for (pid_t child = 0; children >> child;) {
      pending.push_back(child);
    }
  }
}

}  // namespace

MemorySampler::MemorySampler()
    : roots_({getpid()}), thread_([this](const std::stop_token& stop) {
        std::mutex sleep_mutex;
        std::condition_variable_any sleep;
        while (!stop.stop_requested()) {
          Sample();
          std::unique_lock<std::mutex> lock(sleep_mutex);
          sleep.wait_for(lock, stop, kPeriod, [] { return false; });
        }
      }) {
}

MemorySampler::~MemorySampler() = default;

void MemorySampler::Watch(pid_t process) {
  const std::lock_guard<std::mutex> lock(mutex_);
  roots_.push_back(process);
}

void MemorySampler::Sample() {
  std::set<pid_t> processes;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const pid_t root : roots_) {
      AddDescendants(root, &processes);
    }
  }
  int64_t sum = 0;
  for (const pid_t process : processes) {
    sum += ProportionalBytes(process);
  }
  if (sum > max_bytes_.load()) {
    max_bytes_.store(sum);
  }
}

}  // namespace prism::launch
