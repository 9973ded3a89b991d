// Python source run in the program's own interpreter, if it has one.
#pragma once

#include <dlfcn.h>

namespace prism::shim {

// A call of CPython's interface, which nothing links: a program without Python has none of it.
template <typename Function>
bool FindPythonCall(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

enum class PythonRun { kDone, kNoPython, kFailed };

// Runs it in a module of its own, which is never released: what it defines may stay in use. A
// failure is printed as Python prints it.
PythonRun RunPython(const char* source, const char* module);

// The same for source that changes modules. It may say when_imported(name, change): the module is
// changed when its own code has run, at once if it has.
PythonRun RunPythonChanges(const char* source, const char* module);

}  // namespace prism::shim
