// While one exists, this thread's calls of the real runtime are allowed while streams are under
// capture, by this or another thread: the shim allocates and queries events that belong to no
// capture.
#pragma once

#include <cuda_runtime_api.h>

#include "shim/gpu/real_library.h"

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
