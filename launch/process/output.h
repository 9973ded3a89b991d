// What a program says. Under mpirun all processes make the same output; process 0 speaks for
// them, before MPI has started as well.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism::launch {

// Above what a program that failed has printed, at the end of a message: too long for a terminal,
// which is shown what is above it, and kept in FAILED of the output folder.
inline constexpr std::string_view kOutputHeading = "\n\nOutput of the program, at its end:\n";

// On standard output. kEnvironment where the text could not be written.
Status Print(const std::string& text);

// The same of WHO, as an exit code.
int Say(std::string_view who, const std::string& text);

// "WHO: message" on standard error; the exit code. What the machine lacks may differ between
// processes: each says so itself. Another process waits a little first, because mpirun ends all as
// soon as one has failed. `color` is the choice of --color.
int Fail(std::string_view who, const Status& status, std::string_view color = "auto");

}  // namespace prism::launch
