// Flight recorder dumps that were written as JSON: the same fields as in the pickles.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism::launch {

// The pickle of the same content. kBadFile if the bytes are no JSON, or nest deeper than dumps do.
Result<std::string> PickleOfJson(std::string_view bytes, const std::string& name);

}  // namespace prism::launch
