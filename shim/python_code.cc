#include "shim/python_code.h"

namespace prism::shim {
namespace {

// The part of Python's stable interface that is needed.
struct Python {
  int (*ensure)();
  void (*release)(int);
  void* (*new_module)(const char*);
  void* (*dictionary_of)(void*);
  void* (*run)(const char*, int, void*, void*);
  void (*print_error)();
};

constexpr int kFileInput = 257;  // Py_file_input

bool FindPython(Python* python) {
  return FindPythonCall("PyGILState_Ensure", &python->ensure) &&
         FindPythonCall("PyGILState_Release", &python->release) &&
         FindPythonCall("PyModule_New", &python->new_module) &&
         FindPythonCall("PyModule_GetDict", &python->dictionary_of) &&
         FindPythonCall("PyRun_String", &python->run) &&
         FindPythonCall("PyErr_Print", &python->print_error);
}

}  // namespace

PythonRun RunPython(const char* source, const char* module) {
  Python python = {};
  if (!FindPython(&python)) {
    return PythonRun::kNoPython;
  }
  const int state = python.ensure();
  void* const names = python.dictionary_of(python.new_module(module));
  const bool done = python.run(source, kFileInput, names, names) != nullptr;
  if (!done) {
    python.print_error();
  }
  python.release(state);
  return done ? PythonRun::kDone : PythonRun::kFailed;
}

}  // namespace prism::shim
