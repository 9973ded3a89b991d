// An operation of a CPU process group: what the framework waits for, and the thread on which it
// runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace prism::shim {

class CpuWork : public c10d::Work {
 public:
  struct Description {
    int rank = 0;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    uint64_t sequence = 0;
    int source = -1;  // of a receive
    std::vector<at::Tensor> outputs;
    std::function<void()> tell_wait;  // for prism check; may be empty
  };

  // `body` does the work and throws when it fails.
  CpuWork(Description description, std::function<void()> body);

  // Runs the body, once, and completes.
  void Execute();

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return description_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return description_.sequence; }
  int sourceRank() const override { return description_.source; }

 private:
  void TellWait() const;

  Description description_;
  std::function<void()> body_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Executes works one after the other on a separate thread. The destructor finishes what is queued.
class SerialQueue {
 public:
  SerialQueue();
  ~SerialQueue();
  SerialQueue(const SerialQueue&) = delete;
  SerialQueue& operator=(const SerialQueue&) = delete;

  void Push(c10::intrusive_ptr<CpuWork> work);

 private:
  void Serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<CpuWork>> works_;
  bool stop_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace prism::shim
