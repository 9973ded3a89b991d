// The exit codes of every program of Prism; printed by --help. Only a main chooses one, and it does
// so through ExitCode(status), so that each cause of failure has exactly one code.
#pragma once

#include "graph/base/status.h"

namespace prism::launch {

enum ExitCodes : int {
  kExitOk = 0,
  kExitRunFailed = 1,      // program crashed or ran out of memory, disk full mid-run, killed child
  kExitUsage = 2,          // unknown or contradictory option, preset or verb; layout that does not
                           // divide; an explicit --out that exists without --force
  kExitBadFile = 3,        // a file that the user named is absent, unreadable or damaged
  kExitGateNotMet = 4,     // --max-error, --strict
  kExitEnvironment = 5,    // no GPU, library, MPI slot or writable output folder
  kExitInterrupted = 130,  // SIGINT
  kExitTerminated = 143,   // SIGTERM
};

// StatusCode has the numbers of the exit codes.
inline int ExitCode(const Status& status) {
  return static_cast<int>(status.code());
}

}  // namespace prism::launch
