#include "replayer/report/gantt.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "replayer/report/xml_text.h"

namespace prism::replayer {
namespace {

constexpr int64_t kColumns = kPictureWidth;
constexpr int kRowHeight = 16;
constexpr int kAxisHeight = 24;
constexpr int kTicks = 5;

using KindTimes = std::array<DurationNs, kSpanKinds>;

// The time of each kind in each column of [window.begin, window.end).
std::vector<KindTimes> TimesByColumn(const std::vector<ActivitySpan>& spans, TimeRange window) {
  std::vector<KindTimes> columns(kColumns, KindTimes{});
  const DurationNs width = window.end - window.begin;
  const auto begin_of = [&](int64_t column) {
    return window.begin + width / kColumns * column + width % kColumns * column / kColumns;
  };
  for (const ActivitySpan& span : spans) {
    int64_t column = (span.begin - window.begin) / (width / kColumns + 1);  // or one further on
    for (; column < kColumns && begin_of(column) < span.end; ++column) {
      const DurationNs shared =
          std::min(span.end, begin_of(column + 1)) - std::max(span.begin, begin_of(column));
      columns[static_cast<size_t>(column)][static_cast<size_t>(span.kind)] +=
          std::max<DurationNs>(shared, 0);
    }
  }
  return columns;
}

std::string RowSvg(const GanttRow& row, TimeRange window, int top) {
  std::string svg = fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                                kLabelWidth - 6, top + kRowHeight - 4, XmlText(row.label));
  const std::vector<KindTimes> columns = TimesByColumn(row.spans, window);
  const auto kind_of = [&](size_t column) {
    const KindTimes& times = columns[column];
    return static_cast<size_t>(std::ranges::max_element(times) - times.begin());
  };
  const auto is_empty = [&](size_t column) {
    return std::ranges::all_of(columns[column], [](DurationNs time) { return time == 0; });
  };
  for (size_t begin = 0; begin < columns.size();) {
    size_t end = begin + 1;
    while (end < columns.size() && kind_of(end) == kind_of(begin) &&
           is_empty(end) == is_empty(begin)) {
      ++end;
    }
    if (!is_empty(begin)) {
      svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                         kLabelWidth + static_cast<int>(begin), top, end - begin, kRowHeight - 2,
                         SpanColor(static_cast<SpanKind>(kind_of(begin))));
    }
    begin = end;
  }
  return svg;
}

}  // namespace

const char* SpanColor(SpanKind kind) {
  constexpr std::array<const char*, kSpanKinds> kColors = {"#4477aa", "#cc6677", "#ddcc77",
                                                           "#dddddd"};
  return kColors[static_cast<size_t>(kind)];
}

std::string GanttSvg(const std::vector<GanttRow>& rows) {
  TimeRange window = {0, 1};
  bool any = false;
  for (const GanttRow& row : rows) {
    if (!row.spans.empty()) {
      window.begin =
          any ? std::min(window.begin, row.spans.front().begin) : row.spans.front().begin;
      window.end = any ? std::max(window.end, row.spans.back().end) : row.spans.back().end;
      any = true;
    }
  }
  const int height = static_cast<int>(rows.size()) * kRowHeight + kAxisHeight;
  std::string svg = SvgHead(height);
  int top = 0;
  for (const GanttRow& row : rows) {
    svg += RowSvg(row, window, top);
    top += kRowHeight;
  }
  for (int tick = 0; tick <= kTicks; ++tick) {
    const DurationNs time = (window.end - window.begin) * tick / kTicks;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       kLabelWidth + kColumns * tick / kTicks, height - 8, FormatDuration(time));
  }
  return svg + "</svg>\n";
}

}  // namespace prism::replayer
