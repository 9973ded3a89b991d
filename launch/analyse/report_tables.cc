#include "launch/analyse/report_tables.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "replayer/report/html_page.h"
#include "replayer/report/xml_text.h"

namespace prism::launch {
namespace {

constexpr size_t kWidestText = 72;  // of a column; names of kernels are longer

size_t ColumnsOf(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string NumberText(int64_t number, ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kDuration:
      return FormatDuration(number);
    case ColumnKind::kBytes:
      return FormatBytes(number);
    case ColumnKind::kText:  // a number that names something
      return std::to_string(number);
    default:
      return FormatCount(number);
  }
}

std::string CellText(const ReportCell& cell, ColumnKind kind) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return *text;
  }
  if (const auto* number = std::get_if<int64_t>(&cell)) {
    return NumberText(*number, kind);
  }
  if (const auto* number = std::get_if<double>(&cell)) {
    return kind == ColumnKind::kPercent ? fmt::format("{:.2f} %", *number)
                                        : fmt::format("{:.2f}", *number);
  }
  return "-";
}

std::string Shortened(const std::string& text) {
  if (ColumnsOf(text) <= kWidestText) {
    return text;
  }
  size_t length = kWidestText - 3;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) {
    --length;  // inside a character
  }
  return text.substr(0, length) + "...";
}

// Titles and the rows that are shown, as text, without columns that only JSON has.
std::vector<std::vector<std::string>> ShownRows(const ReportTable& table, size_t most) {
  std::vector<std::vector<std::string>> shown(1);
  for (const ReportColumn& column : table.columns) {
    if (column.title != nullptr) {
      shown.front().emplace_back(column.title);
    }
  }
  for (size_t row = 0; row < std::min(most, table.rows.size()); ++row) {
    std::vector<std::string>& cells = shown.emplace_back();
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].title != nullptr) {
        cells.push_back(CellText(table.rows[row][i], table.columns[i].kind));
      }
    }
  }
  return shown;
}

std::string TableText(const ReportTable& table, size_t most) {
  std::vector<std::vector<std::string>> shown = ShownRows(table, most);
  std::string text = fmt::format("\n{}\n", table.title);
  std::vector<size_t> widths(shown.front().size(), 0);
  std::vector<bool> is_text;
  for (const ReportColumn& column : table.columns) {
    if (column.title != nullptr) {
      is_text.push_back(column.kind == ColumnKind::kText);
    }
  }
  for (std::vector<std::string>& row : shown) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = Shortened(row[i]);
      widths[i] = std::max(widths[i], ColumnsOf(row[i]));
    }
  }
  for (const std::vector<std::string>& row : shown) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - ColumnsOf(row[i]), ' ');
      line += "  " + (is_text[i] ? row[i] + room : room + row[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (table.rows.size() > most) {
    text += fmt::format("  ({} more in --format json)\n",
                        FormatCounted(static_cast<int64_t>(table.rows.size() - most), "row"));
  }
  return text;
}

void WriteCell(const ReportColumn& column, const ReportCell& cell, JsonWriter* json) {
  json->Key(column.key);
  if (const auto* text = std::get_if<std::string>(&cell)) {
    json->Value(*text);
  } else if (const auto* number = std::get_if<int64_t>(&cell)) {
    json->Value(*number);
  } else if (const auto* real = std::get_if<double>(&cell)) {
    json->Value(*real);
  } else {
    json->Null();
  }
}

}  // namespace

std::string TablesText(const TableReport& report, size_t most) {
  std::string text = report.title + "\n";
  for (const std::string& note : report.notes) {
    text += fmt::format("  note  {}\n", note);
  }
  for (const ReportTable& table : report.tables) {
    text += table.rows.empty() || !table.in_text ? "" : TableText(table, most);
  }
  return text;
}

std::string TablesHtml(const TableReport& report) {
  std::string body;
  for (const std::string& note : report.notes) {
    body += fmt::format("<p>{}</p>\n", replayer::XmlText(note));
  }
  for (const ReportTable& table : report.tables) {
    if (!table.rows.empty()) {
      std::vector<std::vector<std::string>> rows = ShownRows(table, table.rows.size());
      const std::vector<std::string> head = std::move(rows.front());
      rows.erase(rows.begin());
      body += fmt::format("<h2>{}</h2>\n{}", replayer::XmlText(table.title),
                          replayer::HtmlTable(head, rows));
    }
  }
  return replayer::HtmlPage(report.title, body);
}

std::string TablesJson(const TableReport& report) {
  return JsonText([&](JsonWriter& json) {
    json.Field("title", report.title).ArrayField("notes", report.notes);
    for (const ReportTable& table : report.tables) {
      json.ObjectsField(table.key, table.rows, [&](const std::vector<ReportCell>& row) {
        for (size_t i = 0; i < table.columns.size(); ++i) {
          WriteCell(table.columns[i], row[i], &json);
        }
      });
    }
  });
}

ReportCell PercentOf(double part, double whole) {
  return whole == 0 ? ReportCell() : ReportCell(100 * part / whole);
}

}  // namespace prism::launch
