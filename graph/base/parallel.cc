// Threads take blocks of indices from one counter, so a slow index holds up only its own block. The
// counter needs no ordering: helpers see what the caller wrote because they are started after it,
// and the caller sees what they wrote because it joins them (std::jthread) before it returns.
#include "graph/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "graph/base/check.h"
#include "graph/base/divide.h"

namespace prism {

int AvailableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  return std::max(1, CPU_COUNT(&set));
}

void ParallelFor(int threads,
                 int64_t count,
                 const std::function<void(int64_t)>& body,
                 int64_t block) {
  PRISM_CHECK_GE(threads, 1);
  PRISM_CHECK_GE(block, 1);
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    while (true) {
      const int64_t begin = next.fetch_add(block, std::memory_order_relaxed);
      if (begin >= count) {
        return;
      }
      const int64_t end = std::min(begin + block, count);
      for (int64_t index = begin; index < end; ++index) {
        body(index);
      }
    }
  };
  const int64_t blocks = DivideUp(count, block);
  std::vector<std::jthread> helpers;
  for (int64_t helper = 1; helper < std::min<int64_t>(threads, blocks); ++helper) {
    helpers.emplace_back(work);
  }
  work();
}

}  // namespace prism
