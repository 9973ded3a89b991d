#include "replayer/engine/work_queue.h"

namespace prism::replayer {

void WorkQueue::Wake(uint32_t c) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (states_[c] == State::kRuns) {
    states_[c] = State::kRunsAndWoken;
  } else if (states_[c] == State::kIdle) {
    states_[c] = State::kQueued;
    queue_.push_back(c);
    changed_.notify_one();
  }
}

bool WorkQueue::Take(uint32_t* c) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !queue_.empty() || running_ == 0; });
  if (queue_.empty()) {
    return false;
  }
  // The one woken last runs first: its times are still in the cache, as are those of the classes
  // that it meets next. A queue would cycle through all of them.
  *c = queue_.back();
  queue_.pop_back();
  states_[*c] = State::kRuns;
  ++running_;
  return true;
}

void WorkQueue::Done(uint32_t c) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --running_;
  const bool again = states_[c] == State::kRunsAndWoken;
  states_[c] = again ? State::kQueued : State::kIdle;
  if (again) {
    queue_.push_back(c);
  }
  changed_.notify_all();
}

}  // namespace prism::replayer
