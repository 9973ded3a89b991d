// A stream of a GPU that is the CPU: what is added runs on a thread of the queue's own, one after
// the other. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

namespace prism::testing {

class WorkQueue {
 public:
  using Work = std::function<void()>;

  // Add waits where more than `most` works stand in the queue.
  explicit WorkQueue(size_t most = std::numeric_limits<size_t>::max())
      : most_(most), thread_([this] { Run(); }) {}

  // What was added is done first.
  ~WorkQueue() {
    Add([this] { ends_ = true; });
    thread_.join();
  }

  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Add(Work work) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return works_.size() < most_; });
    works_.push_back(std::move(work));
    ++added_;
    changed_.notify_all();
  }

  // Until what was added by now is done.
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, target = added_] { return done_ >= target; });
  }

  bool IsBusy() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return done_ != added_;
  }

 private:
  void Run() {
    while (!ends_) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !works_.empty(); });
      const Work work = std::move(works_.front());
      works_.pop_front();
      changed_.notify_all();
      lock.unlock();
      work();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> works_;
  uint64_t added_ = 0;
  uint64_t done_ = 0;
  bool ends_ = false;  // touched by the thread alone
  std::thread thread_;
};

}  // namespace prism::testing
