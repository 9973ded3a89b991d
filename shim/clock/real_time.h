// libc's own time functions behind the interposed ones, resolved once each, without locks: the
// first call may come from any thread, even before main, and resolving twice gives the same
// address.
#pragma once

#include <dlfcn.h>

#include <atomic>

// Of a function that stands in for one of libc's; its name is in exports.map as well.
#define PRISM_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace prism::shim {

template <typename Function>
class RealFunction {
 public:
  constexpr explicit RealFunction(const char* name) : name_(name) {}

  // RTLD_NEXT gives the default version of a versioned symbol (pthread_cond_timedwait has two).
  Function* get() {
    void* found = address_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = dlsym(RTLD_NEXT, name_);
      address_.store(found, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(found);
  }

 private:
  const char* name_;
  std::atomic<void*> address_{nullptr};
};

}  // namespace prism::shim
