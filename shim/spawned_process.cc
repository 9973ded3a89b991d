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

constexpr char kSpawnOnlyOwn[] = R"(
import ctypes
import multiprocessing
import os


def change(spawn):
    class Context:
        def __init__(self, context):
            self.context = context

        def __getattr__(self, name):
            return getattr(self.context, name)

        def Process(self, *positional, target=None, args=(), **named):
            context = self.context
            if target is spawn._wrap and args[1] != own_device():
                context, target, args = multiprocessing.get_context("fork"), os._exit, (0,)
            return context.Process(*positional, target=target, args=args, **named)

    class Multiprocessing:
        def __getattr__(self, name):
            return getattr(multiprocessing, name)

        def get_context(self, method=None):
            return Context(multiprocessing.get_context(method))

    spawn.multiprocessing = Multiprocessing()


def own_device():
    os.environ.get("LOCAL_RANK")  # where ranks are forked, they are from here on
    return ctypes.c_int32.from_address(%p).value %% %d


when_imported("torch.multiprocessing.spawn", change)
)";

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

void SpawnOnlyOwnProcess() {
  static std::atomic<bool> done{false};
  if (SessionMode() == channel::Mode::kStandalone || done.exchange(true)) {
    return;
  }
  const channel::Config& config = SessionConfig();
  char source[sizeof(kSpawnOnlyOwn) + kNumbers];
  snprintf(source, sizeof(source), kSpawnOnlyOwn, static_cast<const void*>(&config.rank),
           config.device.device_count);
  RunPythonChanges(source, "prism_spawns");
}

}  // namespace prism::shim
