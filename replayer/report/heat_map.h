// An SVG of one number a rank, as a table of coloured cells: one line a pipeline stage.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"

namespace prism::replayer {

// `value` of each rank, in percent; colours reach from the lowest to the highest, or over 20 points
// where they differ by less. Where a stage has more ranks than a line has cells (256), a cell is
// the highest of neighbours.
std::string HeatMapSvg(const graph::Graph& graph, const std::function<double(Rank)>& value);

}  // namespace prism::replayer
