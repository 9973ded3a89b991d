// What a program prints. Under mpirun all processes produce the same output; only process 0 prints
// it, even before MPI has started.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism::launch {

// Heading, at the end of a message, above the output of a program that failed. A terminal shows
// only what is above it; the file FAILED in the output folder gets everything.
inline constexpr std::string_view kOutputHeading = "\n\nLast output of the program:\n";

// Text that a terminal only shows: control characters, which names in files may contain, and bytes
// that are no UTF-8 are spelled out (\u001b), as in JSON.
std::string Harmless(std::string_view text);

// Prints on standard output. kEnvironment if the text could not be written.
Status Print(const std::string& text);

// The same for program WHO, harmlessly, as an exit code.
int Say(std::string_view who, const std::string& text);

// Prints "WHO: message" on standard error; returns the exit code. Processes other than 0 wait
// first: where process 0 fails as well, mpirun ends them meanwhile; else this is theirs alone (what
// a machine lacks), and they say so. `color` is the choice of --color.
int Fail(std::string_view who, const Status& status, std::string_view color = "auto");

}  // namespace prism::launch
