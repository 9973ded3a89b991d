// What of a program's output tells why it failed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace prism::launch {

// The lines of a text, without their ends.
std::vector<std::string_view> LinesOf(std::string_view text);

// At most `count` lines: the last ones that are not blank or aside; in place of the first of them,
// where they lack it, the last call that the virtual device refused, since programs seldom say
// which call failed, and the first line of the last Python exception, whose message may be a long
// one.
std::string TellingLines(std::string_view output, size_t count);

// Whether the last Python exception says that a file, a model or a data set is not there, or that
// the machine's memory does not suffice, for which --stand-in may help.
bool LacksFile(std::string_view output);

}  // namespace prism::launch
