// The real libraries under the shim: libcuda, libcudart, libcublas, libcublasLt and libcudnn.
//
// The driver is at PRISM_DRIVER, a path that the launcher found before any of ours was loaded; the
// others are found as the program's own loader finds them. Where PRISM_TEST_DEVICE names a library
// all calls go there, whatever else is on the machine: tests have a device of theirs under the
// shim. The launcher says so in the summary.
#pragma once

namespace prism::shim {

// The function of that exported name. Ends the process with one line where no library has it.
void* FindReal(const char* name);

// nullptr where no library has it.
void* LookForReal(const char* name);

// The path of the driver.
const char* RealDriver();

// While one exists, this thread is within a call of a real library: what that calls of the names
// that the shim stands in for is its own business and goes straight on.
class WithinReal {
 public:
  WithinReal() { ++depth_; }
  ~WithinReal() { --depth_; }
  WithinReal(const WithinReal&) = delete;
  WithinReal& operator=(const WithinReal&) = delete;

  static bool Is() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

}  // namespace prism::shim
