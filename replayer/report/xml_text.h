// Texts inside of SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace prism::replayer {

// With the characters that XML has a meaning for as entities, quotes included.
inline std::string XmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace prism::replayer
