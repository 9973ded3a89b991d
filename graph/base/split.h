// Splitting text that comes from users.
#pragma once

#include <string_view>
#include <vector>

namespace prism {

// The parts between the separators, as views into `text`; one more than there are separators, so ""
// gives one empty part and "a," gives "a" and "".
inline std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == text.npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

}  // namespace prism
