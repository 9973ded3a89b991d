// The exit codes of every program of Prism: the numbers of StatusCode (graph/base/status.h), so
// that each cause of failure has exactly one. Only a main function chooses one, or a worker process
// that ends the whole job.
//
// A gate is a condition that the user put on an answer: no warnings, no difference, an error below
// a bound, a plan that fits and keeps its budget and deadline. If it is not met, the answer is
// printed all the same.
#pragma once

#include "graph/base/status.h"

namespace prism::launch {

inline constexpr int kExitOk = 0;

// The end of --help.
inline constexpr const char* kExitCodesHelp =
    "\nExit codes: 0 ok, 1 the run failed, 2 command line, 3 a named file is unusable, 4 a gate "
    "is\n"
    "not met, 5 the environment lacks something, 130 SIGINT, 143 SIGTERM (under Open MPI's\n"
    "mpirun 1 instead of these two).\n";

inline int ExitCode(const Status& status) {
  return static_cast<int>(status.code());
}

}  // namespace prism::launch
