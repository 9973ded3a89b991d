// A fragment from a file, which anyone may have written.
#pragma once

#include <cstddef>
#include <string_view>

#include "graph/fragment.h"

namespace prism::graph {

// As ParseFragment, but fails before it has taken much more memory than `most_bytes`, of which it
// subtracts what the fragment takes.
Result<Fragment> ParseFragment(std::string_view bytes, size_t* most_bytes);

}  // namespace prism::graph
