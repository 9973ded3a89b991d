// The thread may hold no lock of Python's, since c10d releases it around its calls; a thread that
// Python has never seen (autograd's) gets a state for as long as the call lasts.
#include "shim/source_line.h"

#include <unistd.h>

#include <atomic>

#include "shim/observer/observer_calls.h"
#include "shim/python_code.h"
#include "shim/rendezvous/cpu_exchange.h"
#include "shim/session.h"

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

}  // namespace prism::shim

extern "C" __attribute__((visibility("default"))) bool prism_shim_cpu_tell(const char* note,
                                                                           bool is_call) {
  if (prism::shim::reporter.load() == nullptr || gettid() != getpid()) {
    return false;
  }
  if (is_call) {
    prism::shim::ReportSourceLine();
  }
  prism_shim_note(prism::shim::DefineOnce(prism::channel::Table::kMarkerName, note));
  return true;
}

extern "C" __attribute__((visibility("default"))) void prism_shim_report_lines_by(void* function) {
  prism::shim::reporter.store(function, std::memory_order_release);
}
