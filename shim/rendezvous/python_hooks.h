// Changes in the program's Python interpreter, if it has one: shim/rendezvous/absent_ranks.py.
#pragma once

namespace prism::shim {

// Runs the file in this process's interpreter, once. Does nothing in a program without Python. A
// failure is printed as Python prints it, and counted ("rendezvous_python_failed").
void RunPythonHooks();

}  // namespace prism::shim
