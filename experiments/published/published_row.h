// One row of a table of published training runs, in the columns that the tables document
// (columns.csv): what the run was and what was measured. Numbers are read here; texts by the words
// in words.csv.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/status.h"
#include "launch/inputs/csv_table.h"
#include "launch/plan/assumptions.h"

#include "experiments/published/words.h"

namespace prism::launch {

class PublishedRow {
 public:
  PublishedRow(const CsvTable& table, size_t row) : table_(&table), row_(row) {}

  [[nodiscard]] const std::string& Text(std::string_view column) const {
    return table_->Field(row_, column);
  }
  [[nodiscard]] std::string Lower(std::string_view column) const;  // the same in lower case

  // The field is empty, or says that nothing is known ("not stated", "unknown", "n/a", "-").
  [[nodiscard]] bool IsSilent(std::string_view column) const;

  // Words of letters, digits and underscores, in lower case.
  [[nodiscard]] std::vector<std::string> Words(std::string_view column) const;

  // What the row's texts say about a field of words.csv: the value of the first line that fits, ""
  // if none does; the values of all that fit; whether that is "yes"; as a number; as an enumerator;
  // as the union of enumerators that are bits.
  [[nodiscard]] std::string_view Meaning(std::string_view field) const;
  [[nodiscard]] std::vector<std::string_view> Meanings(std::string_view field) const;
  [[nodiscard]] bool Is(std::string_view field) const { return Meaning(field) == "yes"; }
  [[nodiscard]] std::optional<int64_t> Meant(std::string_view field) const;
  template <typename Enum, size_t N>
  [[nodiscard]] std::optional<Enum> Meant(std::string_view field,
                                          const std::array<EnumName<Enum>, N>& names) const {
    return ValueNamed(names, Meaning(field));
  }
  template <size_t N>
  [[nodiscard]] uint32_t Parts(std::string_view field,
                               const std::array<EnumName<uint32_t>, N>& names) const {
    uint32_t parts = 0;
    for (const std::string_view name : Meanings(field)) {
      parts |= ValueNamed(names, name).value_or(0);
    }
    return parts;
  }

  // Whether the text is understood: silent, yes or no, or known to words.csv; and the columns whose
  // text should be and is not.
  [[nodiscard]] bool Knows(std::string_view column) const;
  [[nodiscard]] std::vector<std::string> UnknownColumns() const;

  // The same for entries of the column extra, such as "packing=none".
  [[nodiscard]] std::vector<std::string> UnknownEntries() const;

  // The same row, with a text for the lines of words.csv about recipes.
  [[nodiscard]] PublishedRow WithRecipe(const std::string& recipe) const;

  // The same row for a reader who assumes something where it says nothing, and notes it; other rows
  // keep no notes. The rest as of launch/plan/assumptions.h.
  [[nodiscard]] PublishedRow With(Assumptions* notes) const;
  [[nodiscard]] Assumptions* notes() const { return notes_; }
  void Assume(std::string text, double spread = 0) const;
  template <typename T>
  T Or(const std::optional<T>& stated, T otherwise, const char* what, double spread = 0) const {
    if (!stated.has_value()) {
      Assume(what, spread);
    }
    return stated.value_or(otherwise);
  }

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
  // The entries of that column.
  [[nodiscard]] std::vector<std::string> Entries() const;

  // Name of the table that the row is from: as stated, otherwise what its id begins with.
  [[nodiscard]] std::string Source() const;

  // All rows of the table, this one included.
  [[nodiscard]] std::vector<PublishedRow> RowsOfTable() const;

  // Seconds of a step: as printed, otherwise as derived from throughput.
  [[nodiscard]] std::optional<double> MeasuredSeconds() const;
  [[nodiscard]] std::optional<double> PeakMemoryBytes() const;

 private:
  [[nodiscard]] bool Fits(const Word& word) const;
  [[nodiscard]] std::string WordsText(std::string_view column) const;

  const CsvTable* table_;
  size_t row_;
  std::string recipe_;
  Assumptions* notes_ = nullptr;
};

std::vector<std::string> AllColumns();

// What columns.csv says about a column; "" if nothing.
const std::string& ColumnEntry(std::string_view column, std::string_view entry);

// What stands before the first "=" of an entry.
std::string KeyOf(const std::string& entry);

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
Result<PublishedTable> ParsePublishedTable(std::string_view text, const std::string& path);

}  // namespace prism::launch
