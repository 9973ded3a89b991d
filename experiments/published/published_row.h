// One row of a table of published training runs, in the columns that the tables document: what the
// run was and what was measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "launch/inputs/csv_table.h"

namespace prism::launch {

class PublishedRow {
 public:
  PublishedRow(const CsvTable& table, size_t row) : table_(&table), row_(row) {}

  [[nodiscard]] const std::string& Text(std::string_view column) const {
    return table_->Field(row_, column);
  }
  // The same in lower case: texts are matched by the words in them.
  [[nodiscard]] std::string Lower(std::string_view column) const;
  [[nodiscard]] bool Says(std::string_view column, std::string_view lower_case_word) const;

  // The field is empty, or says that nothing is known ("not stated", "unknown", "n/a", "-").
  [[nodiscard]] bool IsSilent(std::string_view column) const;

  // Words of letters, digits and underscores, in lower case.
  [[nodiscard]] std::vector<std::string> Words(std::string_view column) const;

  // Why the row cannot be read: a field that should be a number and is not, is negative, is beyond
  // any limit, or is a fraction where something is counted; "" if it can.
  [[nodiscard]] std::string Fault() const;

  // Null for an empty or faulty field.
  [[nodiscard]] std::optional<double> Number(std::string_view column) const;
  // A whole number above 0; 0 is treated like an empty field.
  [[nodiscard]] std::optional<int64_t> Integer(std::string_view column) const;
  // "yes", "true", "1", "on", or "no", "false", "0", "off"; null for empty and anything else.
  [[nodiscard]] std::optional<bool> Flag(std::string_view column) const;
  // Value of a key of the column extra ("key=value;key=value"); absent: empty.
  [[nodiscard]] std::string Extra(std::string_view key) const;

  // Name of the table that the row is from: as stated, otherwise what its id begins with.
  [[nodiscard]] std::string Source() const;
  [[nodiscard]] bool IsFrom(std::string_view lower_case_word) const;  // of that name

  // All rows of the table, this one included.
  [[nodiscard]] std::vector<PublishedRow> RowsOfTable() const;

  // Seconds of a step: as printed, otherwise as derived from throughput.
  [[nodiscard]] std::optional<double> MeasuredSeconds() const;
  [[nodiscard]] std::optional<double> PeakMemoryBytes() const;

 private:
  const CsvTable* table_;
  size_t row_;
};

// A table of published runs.
struct PublishedTable {
  std::string path;
  CsvTable csv;
  std::vector<std::string> absent_columns;  // documented columns that are absent; read as empty

  [[nodiscard]] std::vector<PublishedRow> Rows() const;
};

// kBadFile if the file is absent or damaged, has a duplicate or missing id, or lacks what every job
// is derived from: ids, the model or its width, the batch, the GPUs or their degrees.
Result<PublishedTable> ReadPublishedTable(const std::string& path);

}  // namespace prism::launch
