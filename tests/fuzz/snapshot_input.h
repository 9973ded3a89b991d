// What the fuzz target of memory snapshots and the replay of its corpus share.
#pragma once

#include <string_view>

namespace prism::testing {

// Decodes one fuzz input and aborts when an invariant breaks: any input is a snapshot that survives
// encoding, or kBadFile.
void TrySnapshot(std::string_view input);

}  // namespace prism::testing
