#include "replayer/report/heat_map.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "replayer/report/xml_text.h"

namespace prism::replayer {
namespace {

constexpr size_t kMaxCells = 256;
constexpr int kHeatRowHeight = 14;
constexpr double kLeastSpan = 20;  // percent

// From white to red.
std::string ColorOf(double share) {
  const auto fade = static_cast<int>(std::lround(255 * (1 - std::clamp(share, 0.0, 1.0))));
  return fmt::format("#ff{0:02x}{0:02x}", fade);
}

struct Cell {
  Rank first;
  Rank last;
  double value = 0;
};

// The cells of a stage, with as many ranks per cell as needed to fit one line.
std::vector<Cell> CellsOf(const std::vector<Rank>& ranks,
                          const std::function<double(Rank)>& value) {
  const size_t per_cell = DivideUp(ranks.size(), kMaxCells);
  std::vector<Cell> cells;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i % per_cell == 0) {
      cells.push_back({ranks[i], ranks[i], value(ranks[i])});
    }
    cells.back().last = ranks[i];
    cells.back().value = std::max(cells.back().value, value(ranks[i]));
  }
  return cells;
}

}  // namespace

std::string HeatMapSvg(const graph::Graph& graph, const std::function<double(Rank)>& value) {
  std::map<int32_t, std::vector<Rank>> by_stage;
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  for (uint32_t i = 0; i < graph.ranks.size(); ++i) {
    by_stage[graph.role_of(Rank(i)).stage].push_back(Rank(i));
    low = std::min(low, value(Rank(i)));
    high = std::max(high, value(Rank(i)));
  }
  const int height = static_cast<int>(by_stage.size()) * kHeatRowHeight;
  std::string svg = SvgHead(height);
  int top = 0;
  for (const auto& [stage, ranks] : by_stage) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">stage {}</text>\n",
                       kLabelWidth - 6, top + kHeatRowHeight - 3, stage);
    const std::vector<Cell> cells = CellsOf(ranks, value);
    const double width = static_cast<double>(kPictureWidth) / static_cast<double>(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      const double share = (cell.value - low) / std::max(high - low, kLeastSpan);
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\">"
          "<title>rank {}{}: {:.1f} %</title></rect>\n",
          kLabelWidth + static_cast<double>(i) * width, top, width, kHeatRowHeight - 2,
          ColorOf(share), cell.first.value(),
          cell.first == cell.last ? "" : fmt::format(" to {}", cell.last.value()), cell.value);
    }
    top += kHeatRowHeight;
  }
  return svg + "</svg>\n";
}

}  // namespace prism::replayer
