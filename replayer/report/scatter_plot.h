// An SVG of points over two logarithmic axes: plans by days and price, times by a varied number.
#pragma once

#include <string>
#include <vector>

namespace prism::replayer {

struct ScatterPoint {
  double x = 0;
  double y = 0;
  std::string title;    // shown on hover
  bool marked = false;  // drawn larger, in another colour, joined by a line with other marked ones
};

struct ScatterAxes {
  std::string title;
  std::string x;
  std::string y;
};

// Points that are not above 0 on both axes have no place there; how many were left out is written.
std::string ScatterSvg(const ScatterAxes& axes, const std::vector<ScatterPoint>& points);

}  // namespace prism::replayer
