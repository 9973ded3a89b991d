#include "shim/observer/observer_loader.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <atomic>

#include "shim/observer/compiled_kernels.h"
#include "shim/observer/loader_workers.h"
#include "shim/session.h"
#include "shim/sibling_library.h"

namespace prism::shim {

namespace {

// Checks at most this many times: a program that uses the device without libtorch will not load it
// after thousands of calls.
constexpr int kMaxAttempts = 1000;

std::atomic<LargeFill*> large_fill{nullptr};

int IsLibtorch(dl_phdr_info* info, size_t /*size*/, void* /*data*/) {
  return info->dlpi_name != nullptr && strstr(info->dlpi_name, "libtorch_cuda.so") != nullptr ? 1
                                                                                              : 0;
}

void Load() {
  void* const library =
      OpenForTorch("libprism_observer.so", "no framework op names will be recorded");
  using Start = void();
  auto* const start = library == nullptr
                          ? nullptr
                          : reinterpret_cast<Start*>(dlsym(library, "prism_observer_start"));
  if (start == nullptr) {
    Count("observer_missing");
    return;
  }
  large_fill = reinterpret_cast<LargeFill*>(dlsym(library, "prism_observer_fill"));
  start();
  if (SessionMode() != channel::Mode::kStandalone) {
    DescribeCompiledKernels();
  }
  if (SessionMode() == channel::Mode::kRecord || SessionMode() == channel::Mode::kEmulate) {
    TimeLoaderWorkers();
  }
}

}  // namespace

LargeFill* ObserversFill() {
  return large_fill.load(std::memory_order_acquire);
}

void LoadObserver() {
  static std::atomic<bool> done{false};
  static std::atomic<int> attempts{0};
  if (done.load(std::memory_order_acquire)) {
    return;
  }
  if (attempts.fetch_add(1, std::memory_order_relaxed) >= kMaxAttempts) {
    done.store(true, std::memory_order_release);
    return;
  }
  if (dl_iterate_phdr(&IsLibtorch, nullptr) == 0 || done.exchange(true)) {
    return;
  }
  Load();
}

}  // namespace prism::shim
