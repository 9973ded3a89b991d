// Imports ahead: a package often asks for its rank while it is imported, or makes a temporary
// folder (torchmetrics, wandb), and the fork server stops there, although most seconds of a start
// are in the imports that follow and that do not need the rank. The rank that is started by itself
// tells what it imports (channel::ImportLog); before the server forks its first rank, it is asked
// to import the rest of that list.
//
// It does so in a copy of itself, which serves in its place if all is well. A module is left out
// where a rank could notice that it came early: it is of the program, not an installed package; its
// package is being imported; it asks for the rank, sets a variable that the rank by itself did not
// set to the same, prints, leaves a thread behind, draws torch's random numbers, starts a program
// or uses the device; it looks at a variable to which the program later gives another value. The
// copy ends where it meets one, and another is made that leaves it out; the last of a few stops
// there.
//
// What remains is compared as all forked ranks are (launch/emulate/run/rank_starter.h): if the
// first one differs, the original serves.
#pragma once

#include <atomic>
#include <string_view>

namespace prism::shim {

// Reads the environment: whether imports are to be noted, or what was noted.
void OpenImports();

// Whether this process imports ahead.
inline std::atomic<bool> imports_ahead{false};
inline bool ImportsAhead() {
  return imports_ahead.load(std::memory_order_acquire);
}

inline constexpr int kLeftImports = 1;  // exit code

// Ends this process, which imports ahead, because of the module that is imported.
[[noreturn]] void LeaveImports();

// In a process that it has forked: the module that is imported must be left out.
void SpoilImport();

// What happens to the environment. `value`: null if it is unset.
void SeeVariableRead(std::string_view name);
void SeeVariableSet(std::string_view name, const char* value);

// Something was noted.
bool HasImports();

// In a copy: imports what was noted before number `end` but for the modules whose numbers,
// separated by commas, `left_out` has, or ends. In the original: the module that the copy was at,
// -1 if it was at none.
void ImportAhead(std::string_view left_out, int end);
int ImportedLast();

}  // namespace prism::shim
