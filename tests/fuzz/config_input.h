// Shared by the fuzz target of the launcher's readers and the replay of its corpus.
#pragma once

#include <string_view>

namespace prism::testing {

// Passes one fuzz input to a reader and aborts if an invariant breaks: any input is a value within
// its bounds or a failure with the reader's code, never an exception. The first line names the
// reader: "model", "cluster", "config", "ranks" (a list of ranks) or "perturb"; the rest is its
// text. Input that names no reader is ignored.
void TryConfig(std::string_view input);

}  // namespace prism::testing
