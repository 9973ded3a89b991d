// A CSV file (RFC 4180: quoted fields may hold commas, quotes and line breaks) with a header line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

class CsvTable {
 public:
  // kBadFile, naming the line, when a record is longer or shorter than the header, a quote is not
  // closed, the file is not text, or it has no records. `where` is the file's name for messages.
  static Result<CsvTable> Parse(std::string_view text, const std::string& where);

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] bool HasColumn(std::string_view name) const;
  [[nodiscard]] size_t row_count() const { return rows_.size(); }
  [[nodiscard]] int64_t LineOf(size_t row) const { return lines_[row]; }  // from 1

  // The field, blanks at both ends removed; empty if the table has no such column.
  [[nodiscard]] const std::string& Field(size_t row, std::string_view column) const;

 private:
  Status AddRecord(std::vector<std::string> fields, int64_t line, const std::string& where);

  std::vector<std::string> columns_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<int64_t> lines_;
};

}  // namespace prism::launch
