// What the fuzz target of flight recorder dumps and the replay of its corpus share.
#pragma once

#include <string_view>

namespace prism::testing {

// Decodes one fuzz input and aborts when an invariant breaks: any input is a dump that survives
// encoding and can be compared with a graph, or kBadFile.
void TryFlightDump(std::string_view input);

}  // namespace prism::testing
