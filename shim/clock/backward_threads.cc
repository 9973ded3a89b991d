// The threads on which autograd runs backward passes. Whoever waits for a pass is told of its end
// before the pass's thread has come to rest. What that thread still releases then, Python's objects
// among it, would be released sooner or later from run to run, and Python's collector, which counts
// objects, would free tensors in cycles at another op. So a thread of the rank that has waited for
// anything goes on once these threads wait for work again.
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstring>

#include "shim/clock/real_time.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

constexpr const char* kNamePrefix = "pt_autograd_";  // as torch 2.11 names them
constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 5'000};
// After as many naps a thread is not waited for any longer: it runs a pass for someone else, or
// needs a lock that the waiting thread holds.
constexpr int kMostNaps = 2'000;

std::atomic<int> busy{0};  // such threads that do not wait
thread_local bool runs_backward = false;

RealFunction<int(pthread_t, const char*)> real_setname("pthread_setname_np");
RealFunction<int(pthread_cond_t*, pthread_mutex_t*)> real_cond_wait("pthread_cond_wait");
RealFunction<int(const timespec*, timespec*)> real_nanosleep("nanosleep");

void WaitUntilAtRest() {
  for (int naps = 0; naps < kMostNaps && busy.load(std::memory_order_acquire) > 0; ++naps) {
    real_nanosleep.get()(&kNap, nullptr);
  }
}

}  // namespace
}  // namespace prism::shim

PRISM_INTERPOSED int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  const bool is_own = pthread_equal(thread, pthread_self()) != 0;
  if (is_own && !prism::shim::runs_backward &&
      strncmp(name, prism::shim::kNamePrefix, strlen(prism::shim::kNamePrefix)) == 0) {
    prism::shim::runs_backward = true;
    prism::shim::busy.fetch_add(1);
  }
  return prism::shim::real_setname.get()(thread, name);
}

PRISM_INTERPOSED int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!prism::shim::runs_backward) {
    const int error = prism::shim::real_cond_wait.get()(condition, mutex);
    if (prism::shim::ThreadIssuesOps()) {
      prism::shim::WaitUntilAtRest();
    }
    return error;
  }
  prism::shim::busy.fetch_sub(1, std::memory_order_release);
  const int error = prism::shim::real_cond_wait.get()(condition, mutex);
  prism::shim::busy.fetch_add(1, std::memory_order_acquire);
  return error;
}
