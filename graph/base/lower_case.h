// Comparing text regardless of case, independent of the locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace prism {

// ASCII letters in lower case.
inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

}  // namespace prism
