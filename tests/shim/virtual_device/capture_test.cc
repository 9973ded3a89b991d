// Stream capture on the virtual device: who may begin, join and end one, and what spoils it.
#include "shim/virtual_device/capture.h"

#include <cstddef>
#include <thread>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace prism::shim {
namespace {

constexpr size_t kBytes = 64;

class StreamCapture : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&side_), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
  }

  void TearDown() override {
    cudaGetLastError();
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(side_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  static cudaError_t Begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return cudaStreamBeginCapture(stream, mode);
  }

  cudaError_t End(cudaStream_t stream) { return cudaStreamEndCapture(stream, &graph_); }

  // Lets the side stream take part in the capture of the first.
  void Fork() {
    ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(side_, event_, 0), cudaSuccess);
  }

  void Fill(cudaStream_t stream) {
    ASSERT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t side_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  void* device_ = nullptr;
};

TEST_F(StreamCapture, a_stream_is_in_one_capture) {
  ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  Fork();
  EXPECT_EQ(Begin(side_, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  EXPECT_EQ(End(stream_), cudaSuccess);
  EXPECT_EQ(End(stream_), cudaErrorIllegalState);
}

TEST_F(StreamCapture, ends_on_the_stream_on_which_it_began) {
  ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  Fork();
  EXPECT_EQ(End(side_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(End(stream_), cudaSuccess);
}

TEST_F(StreamCapture, ends_on_the_thread_that_began_it_unless_relaxed) {
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeRelaxed}) {
    ASSERT_EQ(Begin(stream_, mode), cudaSuccess);
    cudaError_t elsewhere = cudaSuccess;
    std::thread([&] { elsewhere = End(stream_); }).join();
    const bool relaxed = mode == cudaStreamCaptureModeRelaxed;
    EXPECT_EQ(elsewhere, relaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread);
    EXPECT_EQ(End(stream_), relaxed ? cudaErrorIllegalState : cudaSuccess);
  }
}

TEST_F(StreamCapture, two_captures_cannot_wait_for_each_other) {
  ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(Begin(side_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(side_, event_, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(End(stream_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(End(side_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(StreamCapture, cannot_wait_for_what_was_before_it) {
  ASSERT_EQ(cudaEventRecord(event_, side_), cudaSuccess);
  ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(End(stream_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(StreamCapture, a_stream_depends_once_on_what_it_waits_for_twice) {
  ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  Fill(stream_);
  Fork();
  Fill(side_);
  ASSERT_EQ(cudaEventRecord(event_, side_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  size_t dependencies = 0;
  ASSERT_EQ(
      cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, nullptr, nullptr, &dependencies),
      cudaSuccess);
  EXPECT_EQ(dependencies, 2U) << "both fills";
  EXPECT_EQ(End(stream_), cudaSuccess);
}

// What another thread may not do meanwhile: with a global capture whatever is unsafe, with others
// nothing is forbidden.
TEST_F(StreamCapture, concerns_other_threads_only_if_global) {
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const bool global = mode == cudaStreamCaptureModeGlobal;
    ASSERT_EQ(Begin(stream_, mode), cudaSuccess);
    cudaError_t error = cudaSuccess;
    std::thread([&] {
      char copy[kBytes];
      error = cudaMemcpy(copy, device_, kBytes, cudaMemcpyDeviceToHost);
    }).join();
    EXPECT_EQ(error, global ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    EXPECT_EQ(End(stream_), global ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  }
}

TEST_F(StreamCapture, a_wait_for_the_device_spoils_it) {
  ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(End(stream_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(StreamCapture, keeps_the_ranges_of_its_own_thread) {
  int kept = 0;
  int left = 0;
  ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  KeepRange([&] { ++kept; });
  std::thread([&] { KeepRange([&] { ++left; }); }).join();
  ASSERT_EQ(End(stream_), cudaSuccess);
  cudaGraphExec_t launched = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&launched, graph_, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(launched, stream_), cudaSuccess);
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(left, 0);
}

TEST_F(StreamCapture, what_was_forked_must_be_joined) {
  for (const bool joined : {true, false}) {
    ASSERT_EQ(Begin(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    Fork();
    Fill(side_);
    if (joined) {
      ASSERT_EQ(cudaEventRecord(event_, side_), cudaSuccess);
      ASSERT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaSuccess);
    }
    EXPECT_EQ(End(stream_), joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
  }
}

}  // namespace
}  // namespace prism::shim
