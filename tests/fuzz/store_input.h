// Shared by the fuzz target of the store's protocol and the replay of its corpus.
#pragma once

#include <string_view>

namespace prism::testing {

// Treats the input as what a client sends, and aborts if an invariant breaks: how the bytes are
// split makes no difference, every request is executed or refused with a message, and a client that
// has disconnected is never written to again.
void TryStore(std::string_view input);

}  // namespace prism::testing
