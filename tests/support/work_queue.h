// A stream of a GPU that is the CPU: works run one after the other on a thread of the queue.
// Thread-safe.
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

  // Add waits while more than `most` works are in the queue.
  explicit WorkQueue(size_t most = std::numeric_limits<size_t>::max())
      : most_(most), thread_([this] { Run(); }) {}

  // Finishes everything that was added.
  ~WorkQueue() {
    Add([this] { ends_ = true; });
    thread_.join();
  }

  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Returns how many works were added so far.
  uint64_t Add(Work work) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return works_.size() < most_; });
    works_.push_back(std::move(work));
    changed_.notify_all();
    return ++added_;
  }

  // Waits until everything added so far is done, or that many works.
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, target = added_] { return done_ >= target; });
  }
  void Wait(uint64_t works) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, works] { return done_ >= works; });
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
  bool ends_ = false;  // used only by the thread
  std::thread thread_;
};

}  // namespace prism::testing
