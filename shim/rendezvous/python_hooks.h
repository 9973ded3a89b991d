// Changes in the program's Python interpreter, if it has one: shim/rendezvous/absent_ranks.py.
#pragma once

#include <cstdint>
#include <vector>

namespace prism::shim {

// Runs the file in this process's interpreter, once. Does nothing in a program without Python. A
// failure is printed as Python prints it, and counted ("rendezvous_python_failed").
void RunPythonHooks();

// Global ranks of the group that Python creates on this thread, which only releases whose gloo
// groups do not know them need. Empty: not known, or all.
const std::vector<uint64_t>& MembersFromPython();

}  // namespace prism::shim
