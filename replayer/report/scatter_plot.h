// An SVG of points over two logarithmic axes: plans by days and price, times by a varied number.
#pragma once

#include <string>
#include <vector>

namespace prism::replayer {

struct ScatterPoint {
  double x = 0;
  double y = 0;
  std::string title;    // shown on hover
  bool marked = false;  // drawn larger, in a different colour, and connected by a line
};

struct ScatterAxes {
  std::string title;
  std::string x;
  std::string y;
};

// Points that are not above 0 on both axes cannot be drawn; the plot says how many were left out.
std::string ScatterSvg(const ScatterAxes& axes, const std::vector<ScatterPoint>& points);

}  // namespace prism::replayer
