// Python source run in the program's own interpreter, if it has one.
#pragma once

namespace prism::shim {

enum class PythonRun { kDone, kNoPython, kFailed };

// Runs it in a module of its own, which is never released: what it defines may stay in use. A
// failure is printed as Python prints it.
PythonRun RunPython(const char* source, const char* module);

}  // namespace prism::shim
