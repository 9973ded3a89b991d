#include "shim/rendezvous/python_hooks.h"

#include <dlfcn.h>

#include <mutex>

#include "shim/observer/observer_calls.h"
#include "shim/rendezvous/absent_ranks_source.h"

namespace prism::shim {
namespace {

// The part of Python's stable interface that is needed; a program without Python has none of it, so
// nothing is linked.
struct Python {
  int (*ensure)();
  void (*release)(int);
  void* (*new_module)(const char*);
  void* (*dictionary_of)(void*);
  void* (*run)(const char*, int, void*, void*);
  void (*print_error)();
};

constexpr int kFileInput = 257;  // Py_file_input

template <typename Function>
bool Find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

bool FindPython(Python* python) {
  return Find("PyGILState_Ensure", &python->ensure) &&
         Find("PyGILState_Release", &python->release) &&
         Find("PyModule_New", &python->new_module) &&
         Find("PyModule_GetDict", &python->dictionary_of) && Find("PyRun_String", &python->run) &&
         Find("PyErr_Print", &python->print_error);
}

void Run() {
  Python python = {};
  if (!FindPython(&python)) {
    return;
  }
  const int state = python.ensure();
  // The module is never released: its functions belong to the program from now on.
  void* const names = python.dictionary_of(python.new_module("prism_absent_ranks"));
  if (python.run(kAbsentRanksSource, kFileInput, names, names) == nullptr) {
    python.print_error();
    prism_shim_count("rendezvous_python_failed");
  }
  python.release(state);
}

}  // namespace

void RunPythonHooks() {
  static std::once_flag once;
  std::call_once(once, Run);
}

}  // namespace prism::shim
