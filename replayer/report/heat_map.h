// An SVG of one number per rank, as a table of coloured cells: one line per pipeline stage.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"

namespace prism::replayer {

// `value` of each rank, in percent; colours span the lowest to the highest, or 20 points if they
// differ by less. If a stage has more ranks than a line has cells (256), a cell shows the highest
// of several neighbours.
std::string HeatMapSvg(const graph::Graph& graph, const std::function<double(Rank)>& value);

}  // namespace prism::replayer
