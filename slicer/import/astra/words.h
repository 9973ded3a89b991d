// Words and whole numbers of a line, as the text formats of ASTRA-sim and SimAI are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace prism::slicer {

// What stands between blanks and tabs.
std::vector<std::string_view> Words(std::string_view line);

// Nothing for anything but a whole number below 2^50.
std::optional<int64_t> NumberOf(std::string_view text);

}  // namespace prism::slicer
