// What the fuzz target of imports and the replay of its corpus share.
#pragma once

#include <string_view>

namespace prism::testing {

// The first line names a format, the rest is a file of it. Imports it and aborts when an invariant
// breaks: a graph that does not validate, or an error that is not the file's fault.
void TryImport(std::string_view input);

}  // namespace prism::testing
