// Lines, their words and whole numbers, as the text formats of ASTRA-sim and SimAI are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace prism::slicer {

// The first line of `text`, which then holds what is behind it.
std::string_view TakeLine(std::string_view* text);

// What stands between blanks and tabs.
std::vector<std::string_view> Words(std::string_view line);

// Nothing for anything but a whole number below 2^50.
std::optional<int64_t> NumberOf(std::string_view text);

}  // namespace prism::slicer
