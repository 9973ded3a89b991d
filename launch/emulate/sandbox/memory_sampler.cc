#include "launch/emulate/sandbox/memory_sampler.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// Reading one smaps_rollup walks the process's page tables, tens of milliseconds for libtorch: the
// cost of a sample determines how many are taken.
constexpr std::chrono::milliseconds kShortestPeriod(400);
constexpr int64_t kPeriodsPerCost = 50;

std::chrono::nanoseconds ThreadTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// "Pss:   123456 kB" of a process; 0 when it has exited.
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

// Parents of all processes that can be seen. /proc/<pid>/task/<tid>/children would be cheaper, but
// not every kernel has it.
std::map<pid_t, pid_t> ReadParents() {
  std::map<pid_t, pid_t> parents;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    // "pid (command) state parent ...": the command may contain blanks and brackets.
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t bracket = line.rfind(')');
    if (bracket == std::string::npos || bracket + 4 >= line.size()) {
      continue;
    }
    parents[std::stoi(name)] = std::atoi(line.c_str() + bracket + 4);
  }
  return parents;
}

// The roots and everything they have started, directly or not.
std::set<pid_t> WithDescendants(const std::vector<pid_t>& roots) {
  const std::map<pid_t, pid_t> parents = ReadParents();
  const std::set<pid_t> known(roots.begin(), roots.end());
  std::set<pid_t> found = known;
  for (const auto& [process, parent] : parents) {
    // Follows the chain of ancestors; it ends at 0, and is never longer than the table.
    pid_t ancestor = process;
    for (size_t steps = 0; steps < parents.size() && known.count(ancestor) == 0; ++steps) {
      const auto next = parents.find(ancestor);
      if (next == parents.end()) {
        break;
      }
      ancestor = next->second;
    }
    if (known.count(ancestor) != 0) {
      found.insert(process);
    }
  }
  return found;
}

}  // namespace

MemorySampler::MemorySampler()
    : roots_({getpid()}), thread_([this](const std::stop_token& stop) {
        std::mutex sleep_mutex;
        std::condition_variable_any sleep;
        while (!stop.stop_requested()) {
          const std::chrono::nanoseconds begin = ThreadTime();
          Sample();
          const auto period = std::max<std::chrono::nanoseconds>(
              kShortestPeriod, kPeriodsPerCost * (ThreadTime() - begin));
          std::unique_lock<std::mutex> lock(sleep_mutex);
          sleep.wait_for(lock, stop, period, [] { return false; });
        }
      }) {
}

MemorySampler::~MemorySampler() = default;

void MemorySampler::Watch(pid_t process) {
  const std::lock_guard<std::mutex> lock(mutex_);
  roots_.push_back(process);
}

void MemorySampler::Sample() {
  std::vector<pid_t> roots;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    roots = roots_;
  }
  int64_t sum = 0;
  for (const pid_t process : WithDescendants(roots)) {
    sum += ProportionalBytes(process);
  }
  if (sum > max_bytes_.load()) {
    max_bytes_.store(sum);
  }
}

}  // namespace prism::launch
