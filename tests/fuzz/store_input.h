// What the fuzz target of the store's protocol and the replay of its corpus share.
#pragma once

#include <string_view>

namespace prism::testing {

// Takes the input as what a client sends, and aborts when an invariant breaks: how the bytes are
// split makes no difference, every request is carried out or refused with a message, and a client
// that has gone is never written to again.
void TryStore(std::string_view input);

}  // namespace prism::testing
