#include "shim/gpu/holds.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "shim/channel/channel.h"
#include "shim/gpu/hold_device.h"
#include "shim/gpu/hold_service.h"
#include "shim/gpu/relaxed_capture.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

using HoldId = std::pair<uint32_t, uint64_t>;  // hold stream, sequence

constexpr int kStepsBetweenLooks = 4096;  // checks whether the worker still exists
constexpr int kBusySteps = 2000;          // without work, before it naps between steps
constexpr int64_t kNapNs = 10'000;

void Nap() {
  const timespec nap = {.tv_sec = 0, .tv_nsec = kNapNs};
  syscall(SYS_nanosleep, &nap, nullptr);
}

[[noreturn]] void Die(const char* what, const char* why) {
  fprintf(stderr, "prism shim: %s: %s\n", what, why);
  syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

// PRISM_HOLD: the means by which a stream is held (hold_device.h).
HoldMeans ChosenMeans() {
  const char* const name = getenv("PRISM_HOLD");
  if (name == nullptr || strcmp(name, "kernel") == 0) {
    return HoldMeans::kKernel;
  }
  if (strcmp(name, "wait-value") == 0) {
    return HoldMeans::kWaitValue;
  }
  if (strcmp(name, "host-callback") == 0) {
    return HoldMeans::kHostCallback;
  }
  Die("PRISM_HOLD is none of kernel, wait-value, host-callback", name);
}

class Holds {
 public:
  static Holds& Get() {
    static Holds* const holds = new Holds();  // its threads run until the process ends
    return *holds;
  }

  bool Launch(const HoldLaunch& launch, HoldValues values) {
    const std::lock_guard<std::mutex> one_at_a_time(launch_mutex_);
    const WithinReal within;
    // Added before it can begin, since an unknown hold may end.
    Add(launch.hold_stream, std::move(values));
    const bool launched = device_->Launch(launch.kernel, launch.hold_stream, launch.blocks,
                                          launch.stream, launch.bytes_per_us);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!launched) {
      TakeBackLocked(launch.hold_stream);
    }
    launched_.notify_all();
    return launched;
  }

  bool Capture(const HoldLaunch& launch) {
    const WithinReal within;
    return device_->Capture(launch.kernel, launch.hold_stream, launch.blocks, launch.stream,
                            launch.bytes_per_us);
  }

  void CountLaunch(uint32_t hold_stream, HoldValues values) {
    const std::lock_guard<std::mutex> one_at_a_time(launch_mutex_);
    Add(hold_stream, std::move(values));
    device_->CountLaunch(hold_stream);
    const std::lock_guard<std::mutex> lock(mutex_);
    launched_.notify_all();
  }

  HoldDevice& device() { return *device_; }

 private:
  struct Task {
    HoldId hold;
    HoldValues values;
  };

  Holds() {
    Driver driver;
    const WithinReal within;
    const RelaxedCapture relaxed;
    if (const char* const missing = LoadDriver(RealDriver(), &driver); missing != nullptr) {
      Die("the driver lacks what holds need", missing);
    }
    std::string error;
    device_ = HoldDevice::Create(driver, ChosenMeans(), &error);
    if (device_ == nullptr) {
      Die("no holds on this GPU", error.c_str());
    }
    std::thread(&Holds::Serve, this).detach();
    std::thread(&Holds::WorkOut, this).detach();
  }

  void Add(uint32_t hold_stream, HoldValues values) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const HoldId hold = {hold_stream, next_[hold_stream]++};
    if (values) {
      unfinished_.insert(hold);
      tasks_.push_back({hold, std::move(values)});
    }
  }

  // Removes the hold added last, which was never launched.
  void TakeBackLocked(uint32_t hold_stream) {
    const HoldId hold = {hold_stream, --next_[hold_stream]};
    if (unfinished_.erase(hold) != 0) {
      tasks_.pop_back();
    }
  }

  // Also reports that the hold has begun.
  bool MayEnd(HoldId hold) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!unfinished_.contains(hold)) {
      return true;
    }
    if (begun_.insert(hold).second) {
      launched_.notify_all();
    }
    return false;
  }

  // Waiting kernels would keep the GPU from releasing the process.
  [[noreturn]] void EndProcess() {
    device_->Abort();
    Die("holds", "the run was aborted or its worker process has gone");
  }

  // Passes on beginnings and deadlines, continuously while a hold is in progress.
  void Serve() {
    pthread_setname_np(pthread_self(), "prism holds");
    prctl(PR_SET_TIMERSLACK, 1);
    HoldService service(
        device_.get(), SessionChannel(), [](const channel::Record& record) { Emit(record); },
        [this](uint32_t hold_stream, uint64_t sequence) {
          return MayEnd({hold_stream, sequence});
        });
    int idle_steps = 0;
    for (int steps = 1;; ++steps) {
      if (steps % kStepsBetweenLooks == 0 && channel::WorkerGone(SessionChannel())) {
        EndProcess();
      }
      if (service.Step()) {
        idle_steps = 0;
        continue;
      }
      if (device_->HasOpen()) {
        ++idle_steps < kBusySteps ? static_cast<void>(sched_yield()) : Nap();
        continue;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      launched_.wait(lock, [this] { return device_->HasOpen(); });
    }
  }

  void WorkOut() {
    pthread_setname_np(pthread_self(), "prism values");
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      launched_.wait(lock,
                     [this] { return !tasks_.empty() && begun_.contains(tasks_.front().hold); });
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task.values();
      lock.lock();
      begun_.erase(task.hold);
      unfinished_.erase(task.hold);
    }
  }

  std::unique_ptr<HoldDevice> device_;
  std::mutex launch_mutex_;  // launches; one may wait for a hold to end (hold_device.h)
  std::mutex mutex_;         // everything below; taken after launch_mutex_
  std::condition_variable launched_;
  std::map<uint32_t, uint64_t> next_;  // sequence, by hold stream
  std::deque<Task> tasks_;             // in call order
  std::set<HoldId> begun_;             // of those with values
  std::set<HoldId> unfinished_;        // the same
};

}  // namespace

bool LaunchHold(const HoldLaunch& launch, HoldValues values) {
  return Holds::Get().Launch(launch, std::move(values));
}

bool CaptureHold(const HoldLaunch& launch) {
  return Holds::Get().Capture(launch);
}

void CountHoldLaunch(uint32_t hold_stream, HoldValues values) {
  Holds::Get().CountLaunch(hold_stream, std::move(values));
}

bool ScaleOnDevice(void* data, uint64_t count, uint32_t element, double factor, CUstream stream) {
  const WithinReal within;
  return Holds::Get().device().Scale(data, count, element, factor, stream);
}

}  // namespace prism::shim
