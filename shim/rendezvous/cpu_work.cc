#include "shim/rendezvous/cpu_work.h"

#include <exception>
#include <utility>

namespace prism::shim {

// libstdc++ 12 gave this function a new version; the libstdc++ in a user's process may be older.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

CpuWork::CpuWork(Description description, std::function<void()> body)
    : Work(description.rank, description.type),
      description_(std::move(description)),
      body_(std::move(body)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

void CpuWork::Execute() {
  std::exception_ptr failure;
  try {
    body_();
  } catch (...) {
    failure = std::current_exception();
  }
  body_ = nullptr;  // lets go of what it holds
  if (failure) {
    future_->setError(failure);
  } else {
    future_->markCompleted(c10::IValue(description_.outputs));
  }
  finish(failure);
}

bool CpuWork::wait(std::chrono::milliseconds timeout) {
  TellWait();
  return Work::wait(timeout);
}

// Where that is waited for is not seen; it mostly is at once.
c10::intrusive_ptr<c10::ivalue::Future> CpuWork::getFuture() {
  TellWait();
  return future_;
}

void CpuWork::TellWait() const {
  if (description_.tell_wait) {
    description_.tell_wait();
  }
}

SerialQueue::SerialQueue() : thread_([this] { Serve(); }) {
}

SerialQueue::~SerialQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void SerialQueue::Push(c10::intrusive_ptr<CpuWork> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    works_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void SerialQueue::Serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !works_.empty(); });
    if (works_.empty()) {
      return;
    }
    const c10::intrusive_ptr<CpuWork> work = std::move(works_.front());
    works_.pop_front();
    lock.unlock();
    work->Execute();
    lock.lock();
  }
}

}  // namespace prism::shim
