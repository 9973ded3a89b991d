// Text inside SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace prism::replayer {

// Replaces the characters that are special in XML, quotes included, by entities.
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
