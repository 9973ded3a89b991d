// The codes of warnings (graph::Warning::code) and of counted assumptions: a stable interface, by
// which scripts find them in summary.json. `prism presets warnings` prints this list, and
// tests/graph/warning_codes_test.cc requires that it holds every code that the sources emit. The
// codes of shim/, which links nothing of graph/, are literals there.
#pragma once

#include <span>
#include <string_view>

namespace prism::graph {

// Of one file each.
inline constexpr std::string_view kStandIn = "stand_in";

struct WarningCode {
  std::string_view code;     // "odd_iteration"; a code that ends in '_' is followed by a function's
                             // name
  std::string_view meaning;  // what happened and what follows from it, one sentence
  bool is_shown_first = false;  // says what the time omits, or why a program would not run
};

// In alphabetical order.
std::span<const WarningCode> WarningCodes();

// Null for a code that is not in the list, as in a file of a newer version.
const WarningCode* FindWarningCode(std::string_view code);

// False for a code that is not in the list.
bool IsShownFirst(std::string_view code);

}  // namespace prism::graph
