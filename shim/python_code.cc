#include "shim/python_code.h"

#include <initializer_list>

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

constexpr char kWhenImported[] = R"(
import importlib.util
import sys


class ChangeOnImport:
    def __init__(self, module, change):
        self.module, self.change = module, change

    def find_spec(self, name, path, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)  # by those behind, which may change it too
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            self.change(module)

        spec.loader.exec_module = execute_and_change
        return spec


def when_imported(name, change):
    module = sys.modules.get(name)
    # One that is being imported has not run yet.
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        change(module)
    elif module is None:
        sys.meta_path.insert(0, ChangeOnImport(name, change))
)";

bool FindPython(Python* python) {
  return FindPythonCall("PyGILState_Ensure", &python->ensure) &&
         FindPythonCall("PyGILState_Release", &python->release) &&
         FindPythonCall("PyModule_New", &python->new_module) &&
         FindPythonCall("PyModule_GetDict", &python->dictionary_of) &&
         FindPythonCall("PyRun_String", &python->run) &&
         FindPythonCall("PyErr_Print", &python->print_error);
}

// One after the other, in one module.
PythonRun Run(std::initializer_list<const char*> sources, const char* module) {
  Python python = {};
  if (!FindPython(&python)) {
    return PythonRun::kNoPython;
  }
  const int state = python.ensure();
  void* const names = python.dictionary_of(python.new_module(module));
  bool done = true;
  for (const char* const source : sources) {
    done = done && python.run(source, kFileInput, names, names) != nullptr;
  }
  if (!done) {
    python.print_error();
  }
  python.release(state);
  return done ? PythonRun::kDone : PythonRun::kFailed;
}

}  // namespace

PythonRun RunPython(const char* source, const char* module) {
  return Run({source}, module);
}

PythonRun RunPythonChanges(const char* source, const char* module) {
  return Run({kWhenImported, source}, module);
}

}  // namespace prism::shim
