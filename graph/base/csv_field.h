// One field of a CSV file (RFC 4180).
#pragma once

#include <string>
#include <string_view>

namespace prism {

// `text` in quotes, with the quotes inside doubled, if it holds a comma, a quote or a line break.
inline std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    return std::string(text);
  }
  std::string field = "\"";
  for (const char c : text) {
    field += c;
    if (c == '"') {
      field += c;
    }
  }
  return field + '"';
}

}  // namespace prism
