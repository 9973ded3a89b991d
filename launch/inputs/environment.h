// Variables of the environment that look like options (PRISM_...) and are none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

inline constexpr std::string_view kVariableBeginning = "PRISM_";

// A variable whose name differs from an option's by one letter is a typing error, like an unknown
// flag. Others may belong to other software, as may short ones, which are close to any name: those
// are returned.
Result<std::vector<std::string>> UnknownVariables();

}  // namespace prism::launch
