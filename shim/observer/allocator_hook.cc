// Block events of libtorch's caching allocator.
//
// The allocator reports every block that it allocates or frees to the profiler through
// c10::reportMemoryUsageToProfiler, an exported function of libc10 that libc10_cuda calls across
// libraries, so a preloaded definition is called instead. The trace tracker interface of the
// allocator would be the official way, but it reports the requested bytes; only this call has the
// rounded size of the block that the statistics (and so peak_allocated) count. The argument types
// are written out here, since the shim includes nothing of libtorch; the symbol encodes them.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "shim/clock/host_meter.h"
#include "shim/fork_server/fork_server.h"
#include "shim/observer/observer_calls.h"
#include "shim/observer/torch_symbol.h"
#include "shim/session.h"
#include "shim/virtual_device/memory.h"

namespace {

// c10::Device: type and index, one byte each.
struct TorchDevice {
  int8_t type;
  int8_t index;
};

constexpr int8_t kTorchCuda = 1;  // c10::DeviceType::CUDA

using ReportFunction = void(void*, int64_t, size_t, size_t, TorchDevice);

#define PRISM_REPORT_NAME "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

// Reserved bytes are only visible at block events; a new peak is passed on when it appears. Events
// of one device arrive in order, under its allocator's lock.
void ReportReserved(size_t allocated, size_t reserved) {
  static std::atomic<size_t> peak_allocated{0};
  static std::atomic<size_t> peak_reserved{0};
  if (allocated > peak_allocated.load(std::memory_order_relaxed)) {
    peak_allocated.store(allocated, std::memory_order_relaxed);
  }
  if (reserved <= peak_reserved.load(std::memory_order_relaxed)) {
    return;
  }
  peak_reserved.store(reserved, std::memory_order_relaxed);
  const prism::channel::AllocatorStatsBody stats = {
      .peak_allocated = static_cast<int64_t>(peak_allocated.load(std::memory_order_relaxed)),
      .peak_reserved = static_cast<int64_t>(reserved),
      .allocated = static_cast<int64_t>(allocated),
      .reserved = static_cast<int64_t>(reserved)};
  prism_shim_allocator_stats(&stats);
}

// While recording, and in an emulation whose memory history was requested.
bool TellsOfBlocks() {
  if (prism::shim::ServesForks()) {
    return false;  // not decided before it is a rank
  }
  static const bool tells = prism::shim::SessionMode() == prism::channel::Mode::kRecord ||
                            std::getenv("PRISM_BLOCK_EVENTS") != nullptr;
  return tells;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void PrismReportMemoryUsage(
    void* pointer,
    int64_t bytes,
    size_t allocated,
    size_t reserved,
    TorchDevice device) __asm__(PRISM_REPORT_NAME);

void PrismReportMemoryUsage(
    void* pointer, int64_t bytes, size_t allocated, size_t reserved, TorchDevice device) {
  const prism::shim::InShim inside;
  // What an earlier owner of a block wrote is not valid for the next one: a kernel would have
  // overwritten it.
  if (device.type == kTorchCuda && bytes > 0) {
    prism::shim::Invalidate(pointer, static_cast<size_t>(bytes));
  }
  if (device.type == kTorchCuda && bytes != 0 && TellsOfBlocks()) {
    prism_shim_block_event(bytes > 0 ? 1 : 0, reinterpret_cast<uint64_t>(pointer),
                           bytes > 0 ? bytes : -bytes);
    ReportReserved(allocated, reserved);
  }
  // libtorch's own feeds its profiler.
  static std::atomic<void*> found{nullptr};
  if (void* const real =
          prism::shim::TorchSymbol("libc10.so", PRISM_REPORT_NAME, nullptr, &found)) {
    reinterpret_cast<ReportFunction*>(real)(pointer, bytes, allocated, reserved, device);
  }
}
