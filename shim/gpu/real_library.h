// The real libraries under the shim: libcuda, libcudart, libcublas, libcublasLt and libcudnn.
//
// The driver is at PRISM_DRIVER, a path that the launcher found before any of ours was loaded; the
// others are found as the program's own loader finds them. If PRISM_TEST_DEVICE names a library,
// all calls go there, whatever else is on the machine: that is how tests put their own device under
// the shim. The launcher says so in the summary.
#pragma once

#include <atomic>

#include "shim/gpu/kernel_times.h"

namespace prism::shim {

// The function of that exported name. Ends the process with one line if no library has it.
void* FindReal(const char* name);

// The same, kept at `found` from the first time on.
inline void* FindRealOnce(const char* name, std::atomic<void*>* found) {
  void* function = found->load(std::memory_order_acquire);
  if (function == nullptr) {
    function = FindReal(name);
    found->store(function, std::memory_order_release);
  }
  return function;
}

// The same with the type that the library's header gives the name; looked for once.
#define PRISM_FIND_REAL(name)                                                                     \
  ([] {                                                                                           \
    static auto* const found = reinterpret_cast<decltype(&(name))>(prism::shim::FindReal(#name)); \
    return found;                                                                                 \
  }())

// nullptr if no library has it.
void* LookForReal(const char* name);

// The path of the driver.
const char* RealDriver();

// While one exists, this thread is inside a call of a real library: calls that the library itself
// makes to intercepted functions are passed straight on.
class WithinReal {
 public:
  WithinReal() { Enter(); }
  ~WithinReal() { Leave(); }
  WithinReal(const WithinReal&) = delete;
  WithinReal& operator=(const WithinReal&) = delete;

  static bool Is() { return depth_ > 0; }

  // For code that is not C++ (library_call.S).
  static void Enter() {
    if (depth_++ == 0) {
      BeginTimedCall();
    }
  }
  static void Leave() {
    if (--depth_ == 0) {
      EndTimedCall();
    }
  }

 private:
  static thread_local int depth_;
};

}  // namespace prism::shim
