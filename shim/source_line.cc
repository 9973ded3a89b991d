// The thread may hold no lock of Python's, since c10d releases it around its calls; a thread that
// Python has never seen (autograd's) gets a state for as long as the call lasts.
#include "shim/source_line.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/observer/observer_calls.h"
#include "shim/python_code.h"
#include "shim/rendezvous/cpu_exchange.h"
#include "shim/session.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

std::atomic<void*> reporter{nullptr};  // a function of Python's, never released

struct PythonCalls {
  int (*ensure)();
  void (*release)(int);
  void* (*call)(void*, void*);
  void (*drop)(void*);
  void (*print_error)();
};

bool FindCalls(PythonCalls* python) {
  return FindPythonCall("PyGILState_Ensure", &python->ensure) &&
         FindPythonCall("PyGILState_Release", &python->release) &&
         FindPythonCall("PyObject_CallObject", &python->call) &&
         FindPythonCall("Py_DecRef", &python->drop) &&
         FindPythonCall("PyErr_Print", &python->print_error);
}

// Which of the node's GPUs a device of this process is.
int PhysicalDevice(int device) {
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  for (int i = 0; visible != nullptr && i < device; ++i) {
    visible = strchr(visible, ',');
    visible = visible == nullptr ? nullptr : visible + 1;
  }
  return visible == nullptr || isdigit(*visible) == 0 ? device : atoi(visible);
}

}  // namespace

void ReportSourceLine() {
  void* const function = reporter.load(std::memory_order_acquire);
  PythonCalls python = {};
  if (function == nullptr || SessionMode() != channel::Mode::kRecord || !FindCalls(&python)) {
    return;
  }
  const int state = python.ensure();
  void* const result = python.call(function, nullptr);
  if (result == nullptr) {
    python.print_error();
  } else {
    python.drop(result);
  }
  python.release(state);
}

void ReportDevice() {
  if (reporter.load(std::memory_order_acquire) == nullptr ||
      SessionMode() != channel::Mode::kRecord || getenv("LOCAL_RANK") == nullptr) {
    return;
  }
  const channel::Config& config = SessionConfig();
  const int32_t per_node = std::max(1, config.device.device_count);
  std::array<char, 64> note = {};
  snprintf(note.data(), note.size(), "prism:device:%d:%d", config.rank / per_node,
           PhysicalDevice(CurrentDevice()));
  prism_shim_note(DefineOnce(channel::Table::kMarkerName, note.data()));
}

}  // namespace prism::shim

extern "C" __attribute__((visibility("default"))) bool prism_shim_cpu_tell(
    const char* note, prism::shim::CpuNote kind) {
  using prism::shim::CpuNote;
  if (prism::shim::reporter.load() == nullptr) {
    return false;
  }
  if (kind == CpuNote::kCall) {
    prism::shim::ReportSourceLine();
  }
  prism_shim_note(prism::shim::DefineOnce(prism::channel::Table::kMarkerName, note));
  return true;
}

extern "C" __attribute__((visibility("default"))) bool prism_shim_is_on_side_thread() {
  void* (*state)() = nullptr;
  return gettid() != getpid() &&
         prism::shim::FindPythonCall("PyGILState_GetThisThreadState", &state) && state() != nullptr;
}

extern "C" __attribute__((visibility("default"))) void prism_shim_report_lines_by(void* function) {
  prism::shim::reporter.store(function, std::memory_order_release);
}
