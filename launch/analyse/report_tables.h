// A report as tables: what is computed is filled in once and shown as text, JSON or one HTML page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace prism::launch {

// How a column's numbers are read. JSON has them as they are; the key says their unit.
enum class ColumnKind : uint8_t { kText, kCount, kDuration, kBytes, kPercent, kNumber };

struct ReportColumn {
  const char* key;    // in JSON
  const char* title;  // elsewhere; null: only in JSON
  ColumnKind kind;
};

// Nothing: not known.
using ReportCell = std::variant<std::monostate, std::string, int64_t, double>;

struct ReportTable {
  const char* key;
  std::string title;
  std::vector<ReportColumn> columns;
  std::vector<std::vector<ReportCell>> rows;  // the largest or first ones first
  bool in_text = true;
};

struct TableReport {
  std::string title;
  std::vector<std::string> notes;  // what was left out or taken for granted
  std::vector<ReportTable> tables;
};

inline constexpr size_t kShownRows = 15;

// Text shows the first `most` rows of a table, HTML 40; tables without rows are left out of both.
std::string TablesText(const TableReport& report, size_t most = kShownRows);
std::string TablesHtml(const TableReport& report);
std::string TablesJson(const TableReport& report);

// 100 × part ÷ whole; nothing if there is no whole.
ReportCell PercentOf(double part, double whole);

}  // namespace prism::launch
