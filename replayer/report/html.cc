#include "replayer/report/html.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "graph/base/time.h"
#include "graph/base/units.h"
#include "replayer/report/gantt.h"
#include "replayer/report/html_page.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"
#include "replayer/report/what_matters_report.h"
#include "replayer/report/xml_text.h"

namespace prism::replayer {
namespace {

// The heat map: an SVG of one number per rank, as a table of coloured cells, one line per pipeline
// stage.
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

// `value` of each rank, in percent; colours span the lowest to the highest, or 20 points if they
// differ by less. If a stage has more ranks than a line has cells (256), a cell shows the highest
// of several neighbours.
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

constexpr size_t kMaxStages = 64;

std::string Share(DurationNs part, DurationNs whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) /
                                     static_cast<double>(std::max<DurationNs>(whole, 1)));
}

// Graphs of other tools' traces hold no memory.
std::string Bytes(int64_t bytes, const graph::MemoryProfile& of) {
  return of.device_bytes() == 0 ? "-" : FormatBytes(bytes);
}

std::string PipelineSection(const graph::Graph& graph, const ReplayResult& result) {
  std::vector<GanttRow> rows;
  for (const Timeline& timeline : result.timelines) {
    rows.push_back({fmt::format("stage {}, rank {}", graph.role_of(timeline.rank).stage,
                                timeline.rank.value()),
                    SteadyActivity(graph, timeline, result.ranks[timeline.rank.value()])});
  }
  std::string text = "<h2>What a rank of each stage does</h2>\n<p>";
  for (const auto& [kind, name] : {std::pair(SpanKind::kCompute, "compute"),
                                   std::pair(SpanKind::kExposedComm, "exposed communication"),
                                   std::pair(SpanKind::kBubble, "waiting for a pipeline peer"),
                                   std::pair(SpanKind::kIdle, "idle")}) {
    text +=
        fmt::format("<span class=\"key\" style=\"background:{}\"></span>{}", SpanColor(kind), name);
  }
  return text + "</p>\n" + GanttSvg(rows);
}

std::string RolesSection(const graph::Graph& graph, const ReplayResult& result) {
  std::map<uint32_t, std::pair<Rank, int64_t>> ranks_of;  // by role: the lowest, and how many
  for (uint32_t i = 0; i < graph.ranks.size(); ++i) {
    ++ranks_of.try_emplace(graph.ranks.role[i], Rank(i), 0).first->second.second;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [role, ranks] : ranks_of) {
    const RankTimes& times = result.ranks[ranks.first.value()];
    const graph::MemoryProfile& memory = graph.roles[role].memory;
    rows.push_back({graph.roles[role].name, FormatCount(ranks.second),
                    std::to_string(ranks.first.value()),
                    Share(times.compute_ns, times.iteration_ns),
                    Share(times.exposed_comm_ns, times.iteration_ns),
                    Share(times.bubble_ns, times.iteration_ns),
                    Share(times.idle_ns, times.iteration_ns), Bytes(memory.peak_allocated, memory),
                    Bytes(memory.peak_reserved, memory), Bytes(memory.device_bytes(), memory)});
  }
  return fmt::format(
             "<h2>Roles</h2>\n<p>Times are those of the role's lowest rank. A GPU has {} of "
             "memory.</p>\n",
             FormatBytes(graph.cluster.gpu.memory_bytes)) +
         HtmlTable({"role", "ranks", "lowest", "compute", "exposed comm", "bubble", "idle",
                    "allocated", "reserved", "device"},
                   rows);
}

std::string RanksSection(const graph::Graph& graph, const ReplayResult& result) {
  return "<h2>Waiting, rank by rank</h2>\n<p>Percent of the iteration in which a rank does not "
         "compute: white the lowest, red the highest.</p>\n" +
         HeatMapSvg(graph, [&](Rank rank) {
           const RankTimes& times = result.ranks[rank.value()];
           return 100.0 *
                  (1 - static_cast<double>(times.compute_ns) /
                           static_cast<double>(std::max<DurationNs>(times.iteration_ns, 1)));
         });
}

// Communicators of one name and size are one row, with the busiest of them.
std::string CommunicatorsSection(const graph::Graph& graph, const ReplayResult& result) {
  struct Busiest {
    int64_t count = 0;
    CommunicatorTimes times;
  };
  std::map<std::pair<std::string, size_t>, Busiest> by_name;
  for (uint32_t i = 0; i < graph.communicators.size(); ++i) {
    Busiest& busiest = by_name[{graph.strings[graph.communicators.name[i]],
                                graph.communicators.members_of(CommId(i)).size()}];
    ++busiest.count;
    if (result.communicators[i].transfer_ns >= busiest.times.transfer_ns) {
      busiest.times = result.communicators[i];
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, busiest] : by_name) {
    rows.push_back({name.first, std::to_string(name.second), FormatCount(busiest.count),
                    FormatCount(busiest.times.calls), FormatBytes(busiest.times.bytes),
                    FormatDuration(busiest.times.transfer_ns),
                    FormatDuration(busiest.times.wait_ns_max)});
  }
  return "<h2>Communicators</h2>\n<p>Calls, bytes and times of the busiest of each name and "
         "size, in one iteration.</p>\n" +
         HtmlTable(
             {"name", "ranks", "communicators", "calls", "bytes", "transfer", "longest waits"},
             rows);
}

std::string MattersSection(const WhatMatters& matters) {
  std::vector<std::vector<std::string>> rows;
  for (const FasterPart& one : matters.parts) {
    rows.push_back({TitleOf(one.part), FormatDuration(one.part.busy_ns),
                    FormatDuration(one.iteration_ns), FormatDuration(one.saved_ns),
                    fmt::format("{:.1f} %", 100 * one.share), EffectOf(one)});
  }
  return fmt::format(
             "<h2>What matters</h2>\n<p>The iteration of {} with one thing 10 % faster, each by a "
             "replay of the whole job.</p>\n",
             FormatDuration(matters.iteration_ns)) +
         HtmlTable({"10 % faster", "takes", "iteration", "saved", "of its 10 %", ""}, rows);
}

std::string List(const std::string& title, const std::vector<std::string>& lines) {
  std::string text = fmt::format("<details><summary>{} ({})</summary><ul>\n", title, lines.size());
  for (const std::string& line : lines) {
    text += fmt::format("<li>{}</li>\n", XmlText(line));
  }
  return text + "</ul></details>\n";
}

std::string NotesSection(const Summary& summary) {
  std::vector<std::string> warnings;
  for (const graph::Warning& warning : summary.warnings) {
    warnings.push_back(fmt::format("{}: {} ({})", warning.code, warning.example, warning.count));
  }
  return "<h2>Notes</h2>\n" + List("warnings", warnings) + List("assumptions", summary.assumptions);
}

// Inside a script element "</" would end it.
std::string ScriptData(const Summary& summary) {
  std::string json = SummaryJson(summary);
  for (size_t at = json.find("</"); at != std::string::npos; at = json.find("</", at)) {
    json.replace(at, 2, "<\\/");
  }
  return fmt::format("<script type=\"application/json\" id=\"summary\">\n{}</script>\n", json);
}

}  // namespace

std::vector<Rank> RanksInHtml(const graph::Graph& graph) {
  std::map<int32_t, Rank> lowest;
  for (uint32_t i = 0; i < graph.ranks.size(); ++i) {
    lowest.try_emplace(graph.role_of(Rank(i)).stage, Rank(i));
  }
  std::vector<Rank> all;
  for (const auto& [stage, rank] : lowest) {
    all.push_back(rank);
  }
  if (all.size() <= kMaxStages) {
    return all;
  }
  std::vector<Rank> shown;
  for (size_t i = 0; i < kMaxStages; ++i) {
    shown.push_back(all[i * (all.size() - 1) / (kMaxStages - 1)]);
  }
  return shown;
}

std::string HtmlReport(const graph::Graph& graph,
                       const ReplayResult& result,
                       const Summary& summary,
                       const WhatMatters* matters) {
  const std::string title =
      fmt::format("{} on {} × {}", summary.job.name.empty() ? "job" : summary.job.name,
                  FormatCount(summary.job.parallel.world_size()), summary.gpu);
  return HtmlPage(title, fmt::format("<pre>{}</pre>\n", XmlText(SummaryText(summary, {}))) +
                             (matters == nullptr ? "" : MattersSection(*matters)) +
                             PipelineSection(graph, result) + RolesSection(graph, result) +
                             RanksSection(graph, result) + CommunicatorsSection(graph, result) +
                             NotesSection(summary) + ScriptData(summary));
}

}  // namespace prism::replayer
