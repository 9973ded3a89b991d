// The parts of a note (call_recorder.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"

namespace prism::slicer {

// What stands before the first colon, which it takes off.
std::string_view TakePart(std::string_view* text);

// 0 if it is none.
int64_t NumberIn(std::string_view text);
uint64_t IdentityIn(std::string_view text);

// FIRST/STRIDE/COUNT, or numbers with commas.
std::vector<Rank> MembersIn(std::string_view text);

}  // namespace prism::slicer
