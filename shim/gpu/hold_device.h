// Holds on one GPU: loads the kernels from the image inside this library, launches holds on
// streams, reports when they began and ended, and takes their deadlines. hold_logic.h says what a
// hold is.
//
// There are three methods, for GPUs, drivers or programs on which one of them does not work:
//
// - kKernel: a kernel that occupies as many blocks as NCCL's would. Times are the GPU's.
// - kWaitValue: the stream waits for a value in memory (cuStreamWaitValue64). Occupies nothing and
//   cannot be captured into a graph. Times are the host's; Poll has to be called often.
// - kHostCallback: a host function waits in the driver's callback thread. Occupies nothing; all
//   streams of a process share that thread, so a hold delays those of other streams. Times are the
//   host's.
//
// Thread-safe. One object per process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/program/op.h"
#include "shim/gpu/driver.h"
#include "shim/gpu/hold_logic.h"

namespace prism::shim {

enum class HoldMeans : uint8_t { kKernel, kWaitValue, kHostCallback };

// The kernel's name for a collective; sends and receives have no kind.
const char* HoldKernelName(graph::CollectiveKind kind);
inline constexpr const char* kHoldTransferName = "prism_hold_sendrecv";
inline constexpr const char* kScaleName = "prism_scale";

// Blocks, hence SMs, of NCCL's kernel for that many bytes on a communicator of that many channels:
// one per channel, fewer where a channel would get too little work (src/enqueue.cc; 512 threads and
// NCCL_SIMPLE_THREAD_THRESHOLD, 64 bytes each).
uint32_t HoldBlocks(int64_t bytes, int32_t channels);

// What each block of a hold copies in a microsecond, of a collective of that many channels over
// links of that rate. By NCCL's simple protocol in a ring, a byte over the link is read twice and
// written once, or read once and written twice, in device memory: a byte and a half copied.
uint64_t HoldBytesPerUs(int64_t link_bytes_per_s, int32_t channels);

// Something that a hold did.
struct HoldEvent {
  uint32_t hold_stream;
  uint64_t sequence;
  bool ended;  // false: it began, its stream has arrived
  uint64_t time_ns;
};

class HoldDevice {
 public:
  // Creates it in the current context. nullptr, with the reason in `error`, when the driver
  // refuses.
  static std::unique_ptr<HoldDevice> Create(const Driver& driver,
                                            HoldMeans means,
                                            std::string* error);
  ~HoldDevice();  // aborts; the memory stays with the driver, kernels may still read it

  // Enqueues a hold, which gets the next sequence number of the hold stream. `blocks`: of the
  // collective's kernel; `bytes_per_us`: HoldTraffic's, kKernel alone moves any. False when the
  // driver refuses.
  bool Launch(const char* kernel,
              uint32_t hold_stream,
              uint32_t blocks,
              CUstream stream,
              uint64_t bytes_per_us = 0);

  // The same on a stream under capture, where nothing runs yet: for each launch of the graph, call
  // CountLaunch once per captured hold.
  bool Capture(const char* kernel,
               uint32_t hold_stream,
               uint32_t blocks,
               CUstream stream,
               uint64_t bytes_per_us = 0);
  void CountLaunch(uint32_t hold_stream);

  // Appends what has happened since the last call, per hold stream in order. False: nothing.
  bool Poll(std::vector<HoldEvent>* events);

  // The hold ends then, or now if that has passed. Must not be called before Poll has reported its
  // beginning.
  void SetDeadline(uint32_t hold_stream, uint64_t sequence, uint64_t time_ns);

  // Ends all holds now, and all later ones immediately.
  void Abort();

  // Multiplies that many elements of device memory by a factor, in stream order. `element`:
  // nccl/reduction.h. False when the driver refuses; does nothing without kernels (kHostCallback).
  bool Scale(void* data, uint64_t count, uint32_t element, double factor, CUstream stream);

  // Whether there are launched holds whose end was not reported.
  [[nodiscard]] bool HasOpen() const;

 private:
  struct Progress {
    uint64_t launched = 0;
    uint64_t begun = 0;       // reported by Poll
    uint64_t ended = 0;       // likewise
    uint64_t release_ns = 0;  // kWaitValue: when to release the stream; 0: not known
  };
  struct HoldPlace {
    uint32_t hold_stream;
    uint64_t sequence;  // of a captured one none
    uint64_t bytes_per_us;
  };
  struct Callback;

  HoldDevice(const Driver& driver, HoldMeans means) : driver_(driver), means_(means) {}
  bool Load(std::string* error);
  bool Enqueue(const char* kernel, HoldPlace hold, uint32_t blocks, CUstream stream);
  CUresult LoadKernels();
  bool LaunchKernel(const char* kernel, HoldPlace hold, uint32_t blocks, CUstream stream);
  bool LaunchWait(HoldPlace hold, CUstream stream);
  bool LaunchCallback(uint32_t hold_stream, CUstream stream);
  static void RunCallback(void* data);
  void ReleaseWaits(uint32_t index, Progress* progress);
  CUdeviceptr OnDevice(const void* in_board) const;

  const Driver driver_;
  const HoldMeans means_;
  std::map<std::string, CUfunction> kernels_;  // by name
  HoldBoard* board_ = nullptr;
  CUdeviceptr device_board_ = 0;
  CUdeviceptr device_streams_ = 0;
  CUdeviceptr moved_ = 0;                       // HoldTraffic::buffer
  std::unique_ptr<HoldStream[]> host_streams_;  // kHostCallback
  // Serialises launches. A launch may wait in the driver, whose queue is full, until a hold in
  // progress ends; ending a hold takes only the other mutex, which no launch holds meanwhile.
  std::mutex launch_mutex_;
  mutable std::mutex mutex_;
  std::vector<Progress> progress_;  // by hold stream
};

}  // namespace prism::shim
