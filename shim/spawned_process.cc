#include "shim/spawned_process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "shim/python_code.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

// Process i calls `_wrap(fn, i, ...)`, after it has imported the program's file.
constexpr char kSource[] = R"(
import ctypes
import os
import sys

frame = sys._getframe()
while frame is not None:
    code = frame.f_code
    if code.co_name == "_wrap" and code.co_filename.endswith("torch/multiprocessing/spawn.py"):
        if frame.f_locals["i"] != %d:
            os._exit(0)
        ctypes.c_bool.from_address(%p).value = True
        break
    frame = frame.f_back
)";
constexpr size_t kNumbers = 64;  // their digits

bool WasSpawned() {
  char text[4096] = {};
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? 0 : read(file, text, sizeof(text));
  close(file);
  constexpr const char* kArgument = "--multiprocessing-fork";
  return bytes > 0 &&
         memmem(text, static_cast<size_t>(bytes), kArgument, strlen(kArgument)) != nullptr;
}

}  // namespace

void EndIfSpawnedForOtherRank() {
  static std::atomic<bool> settled{SessionMode() == channel::Mode::kStandalone || !WasSpawned()};
  if (settled.load(std::memory_order_relaxed)) {
    return;
  }
  const channel::Config& config = SessionConfig();
  char source[sizeof(kSource) + kNumbers];
  snprintf(source, sizeof(source), kSource, config.rank % config.device.device_count,
           static_cast<void*>(&settled));
  RunPython(source, "prism_spawned_process");
}

}  // namespace prism::shim
