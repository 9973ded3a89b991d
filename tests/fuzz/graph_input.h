// What the fuzz target of the graph file and the replay of its corpus share.
#pragma once

#include <string_view>

namespace prism::testing {

// Decodes one fuzz input and aborts when an invariant breaks. Input that begins like a graph file
// is one; any other is a list of chunks (kind: 1 byte, size: 2 bytes little-endian, payload) that
// is first framed with correct hashes, since no fuzzer guesses a hash.
void TryGraphFile(std::string_view input);

}  // namespace prism::testing
