// While one exists, this thread's calls of the real runtime are allowed beside streams under
// capture, its own or another thread's: the shim allocates and asks for events that no capture is
// about.
#pragma once

#include <cuda_runtime_api.h>

#include "shim/device/real_library.h"

namespace prism::shim {

class RelaxedCapture {
 public:
  RelaxedCapture() { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() {
    const WithinReal within;
    PRISM_FIND_REAL(cudaThreadExchangeStreamCaptureMode)(&mode_);
  }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace prism::shim
