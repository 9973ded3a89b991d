#include "replayer/report/scatter_plot.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "replayer/report/xml_text.h"

namespace prism::replayer {
namespace {

constexpr double kSize = 480;
constexpr double kMargin = 60;
constexpr double kInner = kSize - 2 * kMargin;

// Logarithms of the values, with a little room on both sides.
struct Range {
  double low = 0;
  double high = 1;

  void Cover(double value) {
    low = std::min(low, std::log10(value));
    high = std::max(high, std::log10(value));
  }

  [[nodiscard]] double Share(double value) const {
    return (std::log10(value) - low) / (high - low);
  }
};

Range RangeOf(const std::vector<ScatterPoint>& points, double ScatterPoint::* value) {
  constexpr double kRoom = 0.04;
  if (points.empty()) {
    return {};
  }
  Range range = {std::log10(points.front().*value), std::log10(points.front().*value)};
  for (const ScatterPoint& point : points) {
    range.Cover(point.*value);
  }
  const double room = kRoom + kRoom * (range.high - range.low);
  return {range.low - room, range.high + room};
}

// 1, 2 and 5 times powers of ten inside the range.
std::vector<double> Ticks(const Range& range) {
  std::vector<double> ticks;
  for (int power = static_cast<int>(std::floor(range.low)); power <= range.high; ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double tick = digit * std::pow(10, power);
      if (std::log10(tick) >= range.low && std::log10(tick) <= range.high) {
        ticks.push_back(tick);
      }
    }
  }
  return ticks;
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     XmlText(text));
}

}  // namespace

std::string ScatterSvg(const ScatterAxes& axes, const std::vector<ScatterPoint>& given) {
  // Others have no logarithm.
  std::vector<ScatterPoint> points;
  std::copy_if(given.begin(), given.end(), std::back_inserter(points),
               [](const ScatterPoint& point) { return point.x > 0 && point.y > 0; });
  const Range across = RangeOf(points, &ScatterPoint::x);
  const Range up = RangeOf(points, &ScatterPoint::y);
  const auto left = [&](double value) { return kMargin + kInner * across.Share(value); };
  const auto top = [&](double value) { return kSize - kMargin - kInner * up.Share(value); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{0:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"{0:.0f}\" height=\"{0:.0f}\" fill=\"white\"/>\n"
      "<rect x=\"{1:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{2:.0f}\" fill=\"none\" "
      "stroke=\"#888\"/>\n",
      kSize, kMargin, kInner);
  for (const double tick : Ticks(across)) {
    svg += Text(left(tick), kSize - kMargin + 16, "middle", fmt::format("{:g}", tick));
  }
  for (const double tick : Ticks(up)) {
    svg += Text(kMargin - 6, top(tick) + 4, "end", fmt::format("{:g}", tick));
  }
  std::string line;
  for (const ScatterPoint& point : points) {
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" fill-opacity=\"0.6\">"
        "<title>{}</title></circle>\n",
        left(point.x), top(point.y), point.marked ? "4" : "2.4",
        point.marked ? "#c0392b" : "#1f6fb4", XmlText(point.title));
    if (point.marked) {
      line += fmt::format("{:.1f},{:.1f} ", left(point.x), top(point.y));
    }
  }
  svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#c0392b\"/>\n", line);
  svg += Text(kSize / 2, kSize - 16, "middle", axes.x + " (logarithmic)");
  svg += fmt::format(
      "<text x=\"16\" y=\"{0:.1f}\" text-anchor=\"middle\" "
      "transform=\"rotate(-90 16 {0:.1f})\">{1}</text>\n",
      kSize / 2, XmlText(axes.y + " (logarithmic)"));
  if (points.size() < given.size()) {
    svg += Text(
        kSize / 2, kMargin - 10, "middle",
        fmt::format("{} of {} left out: not above 0", given.size() - points.size(), given.size()));
  }
  return svg + Text(kSize / 2, kMargin / 2, "middle", axes.title) + "</svg>\n";
}

}  // namespace prism::replayer
