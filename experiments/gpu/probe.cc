// Holds by a C interface, for programs/probe.py. One device, one GPU, the calling thread's context.
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "shim/gpu/hold_device.h"

namespace {

using prism::shim::HoldDevice;
using prism::shim::HoldEvent;

prism::shim::Driver driver;
CUmodule known = nullptr;
std::string known_image;
std::unique_ptr<HoldDevice> device;
std::string error;
std::vector<HoldEvent> events;

}  // namespace

extern "C" {

// nullptr, or what is wrong. `means`: 0 kernel, 1 awaited value, 2 host callback.
const char* prism_probe_open(int means) {
  if (const char* missing = prism::shim::LoadDriver("libcuda.so.1", &driver); missing != nullptr) {
    error = missing;
    return error.c_str();
  }
  events.clear();
  device = HoldDevice::Create(driver, static_cast<prism::shim::HoldMeans>(means), &error);
  return device == nullptr ? error.c_str() : nullptr;
}

// Loads the fat binary of known_kernels.cu; a CUresult.
int prism_probe_load(const char* path) {
  std::ostringstream image;
  image << std::ifstream(path, std::ios::binary).rdbuf();
  known_image = image.str();
  return static_cast<int>(driver.load_module(&known, known_image.data()));
}

// The arguments of prism_known_copy and how many blocks run it.
struct KnownCopy {
  uint64_t source;
  uint64_t target;
  uint64_t bytes;
  uint64_t duration_ns;
  uint32_t blocks;
};

int prism_probe_copy(const KnownCopy* copy, void* stream) {
  CUfunction function = nullptr;
  KnownCopy given = *copy;
  uint64_t count = given.bytes / 16;
  std::array<void*, 4> arguments = {&given.source, &given.target, &count, &given.duration_ns};
  const CUresult found = driver.get_function(&function, known, "prism_known_copy");
  return static_cast<int>(found != CUDA_SUCCESS
                              ? found
                              : driver.launch(function, given.blocks, 1, 1, 640, 1, 1, 0,
                                              static_cast<CUstream>(stream), arguments.data(),
                                              nullptr));
}

int prism_probe_timer(uint64_t times, uint32_t count, void* stream) {
  CUfunction function = nullptr;
  std::array<void*, 2> arguments = {&times, &count};
  const CUresult found = driver.get_function(&function, known, "prism_timer_steps");
  return static_cast<int>(found != CUDA_SUCCESS ? found
                                                : driver.launch(function, 1, 1, 1, 1, 1, 1, 0,
                                                                static_cast<CUstream>(stream),
                                                                arguments.data(), nullptr));
}

// What the host pays for a launch of a kernel that does nothing, mean of `count`; -1: refused.
double prism_probe_launch_seconds(uint32_t count, void* stream) {
  CUfunction function = nullptr;
  CUresult said = driver.get_function(&function, known, "prism_timer_steps");
  uint64_t times = 0;
  uint32_t none = 0;
  std::array<void*, 2> arguments = {&times, &none};
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < count && said == CUDA_SUCCESS; ++i) {
    said = driver.launch(function, 1, 1, 1, 1, 1, 1, 0, static_cast<CUstream>(stream),
                         arguments.data(), nullptr);
  }
  if (said != CUDA_SUCCESS) {
    return -1;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
}

void prism_probe_close() {
  device.reset();
  events.clear();
}

int prism_probe_hold(const char* kernel,
                     uint32_t hold_stream,
                     uint32_t blocks,
                     void* stream,
                     uint64_t bytes_per_us) {
  const auto on = static_cast<CUstream>(stream);
  return device->Launch(kernel, hold_stream, blocks, on, bytes_per_us) ? 0 : 1;
}

int prism_probe_capture(const char* kernel, uint32_t hold_stream, uint32_t blocks, void* stream) {
  return device->Capture(kernel, hold_stream, blocks, static_cast<CUstream>(stream)) ? 0 : 1;
}

void prism_probe_count(uint32_t hold_stream) {
  device->CountLaunch(hold_stream);
}

// Waits for what a hold stream does next; its time. A negative one: it ended. 0: nothing in 5 s.
int64_t prism_probe_next(uint32_t hold_stream) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) {
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].hold_stream == hold_stream) {
        const HoldEvent event = events[i];
        events.erase(events.begin() + static_cast<long>(i));
        const auto time = static_cast<int64_t>(event.time_ns);
        return event.ended ? -time : time;
      }
    }
    device->Poll(&events);
  }
  return 0;
}

// Gives the next hold of a hold stream, whose sequence number this is, a deadline so long after its
// beginning, as soon as that is told: without Python in between, whose microseconds would count as
// the hold's. The deadline; 0: nothing began.
uint64_t prism_probe_release(uint32_t hold_stream, uint64_t sequence, uint64_t length_ns) {
  const int64_t begun = prism_probe_next(hold_stream);
  if (begun <= 0) {
    return 0;
  }
  const uint64_t deadline = static_cast<uint64_t>(begun) + length_ns;
  device->SetDeadline(hold_stream, sequence, deadline);
  return deadline;
}

void prism_probe_abort() {
  device->Abort();
}
}
