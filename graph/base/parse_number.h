// Numbers in text that comes from users and files.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace prism {

// Reads the number that is the whole of the text, as std::from_chars does: no blanks, no plus sign,
// no locale. False, with `number` unchanged, for anything else and for what its type cannot hold.
template <typename Number>
bool ParseNumber(std::string_view text, Number* number) {
  Number value = {};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    return false;
  }
  *number = value;
  return true;
}

}  // namespace prism
