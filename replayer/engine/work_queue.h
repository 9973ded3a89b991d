// Classes that may be able to advance, handed to any number of threads; each class to one thread at
// a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace prism::replayer {

class WorkQueue {
 public:
  explicit WorkQueue(size_t classes) : states_(classes, State::kIdle) {}

  // The class may be able to advance. If it is being run, it is run once more.
  void Wake(uint32_t c);

  // Waits for a class to run; false when none is left and none is being run.
  bool Take(uint32_t* c);

  // The class that was taken cannot advance further.
  void Done(uint32_t c);

 private:
  enum class State : uint8_t { kIdle, kQueued, kRuns, kRunsAndWoken };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint32_t> queue_;
  std::vector<State> states_;  // by class
  size_t running_ = 0;
};

}  // namespace prism::replayer
