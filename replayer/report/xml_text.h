// Text inside SVG and HTML.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

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

// The begin of a picture with a label of that width on the left; "</svg>" ends it. Pixels.
inline constexpr int kLabelWidth = 190;
inline constexpr int kPictureWidth = 1000;  // beside the labels
inline std::string SvgHead(int height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"11\">\n",
      kLabelWidth + kPictureWidth + 30, height);
}

}  // namespace prism::replayer
