#include "experiments/published/published_row.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/lower_case.h"
#include "graph/base/parse_number.h"

#include "experiments/published/tables.h"

namespace prism::launch {
namespace {

constexpr double kMaxCount = 1 << 21;  // a product of three fits into 64 bits
constexpr double kMaxMeasure = 1e18;
constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

// columns.csv: what a column holds, and which of several is needed to know a row's job.
const CsvTable& Columns() {
  static const Result<CsvTable> columns = CsvTable::Parse(kColumnsCsv, "columns.csv");
  return *columns;
}

const std::set<std::string, std::less<>>& CountColumns() {
  static const std::set<std::string, std::less<>> counts = [] {
    std::set<std::string, std::less<>> names;
    for (size_t row = 0; row < Columns().row_count(); ++row) {
      if (Columns().Field(row, "kind") == "count") {
        names.insert(Columns().Field(row, "column"));
      }
    }
    return names;
  }();
  return counts;
}

// The number in the text, if it is plausible for the column.
std::optional<double> PlausibleNumber(std::string_view column, const std::string& text) {
  double value = 0;
  const bool counted = CountColumns().contains(column);
  const bool plausible = ParseNumber(text, &value) && std::isfinite(value) && value >= 0 &&
                         value <= (counted ? kMaxCount : kMaxMeasure) &&
                         (!counted || value == std::floor(value));
  return plausible ? std::optional(value) : std::nullopt;
}

bool IsOfWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// At least one column of each group is needed; a group has the name of one of them.
Status CheckColumns(const CsvTable& csv, const std::string& path) {
  for (const char* group : {"id", "model", "global_batch", "num_gpus"}) {
    bool found = false;
    for (size_t row = 0; row < Columns().row_count(); ++row) {
      found |=
          Columns().Field(row, "needed") == group && csv.HasColumn(Columns().Field(row, "column"));
    }
    if (!found) {
      return BadFile(fmt::format(
          "{}: has no column '{}'; a table of published training runs is needed", path, group));
    }
  }
  return OkStatus();
}

std::vector<std::string> AbsentColumns(const CsvTable& csv) {
  std::vector<std::string> absent;
  for (size_t row = 0; row < Columns().row_count(); ++row) {
    if (!csv.HasColumn(Columns().Field(row, "column"))) {
      absent.push_back(Columns().Field(row, "column"));
    }
  }
  return absent;
}

Status CheckIds(const CsvTable& csv, const std::string& path) {
  std::set<std::string> ids;
  for (size_t row = 0; row < csv.row_count(); ++row) {
    const std::string& id = csv.Field(row, "id");
    if (id.empty() || !ids.insert(id).second) {
      return BadFile(fmt::format(
          "{}:{}: {}", path, csv.LineOf(row),
          id.empty() ? "this row has no id" : fmt::format("two rows have the id {}", id)));
    }
  }
  return OkStatus();
}

}  // namespace

std::vector<std::string> AllColumns() {
  std::vector<std::string> names;
  for (size_t row = 0; row < Columns().row_count(); ++row) {
    names.push_back(Columns().Field(row, "column"));
  }
  return names;
}

const std::string& ColumnEntry(std::string_view column, std::string_view entry) {
  static const std::string none;
  for (size_t row = 0; row < Columns().row_count(); ++row) {
    if (Columns().Field(row, "column") == column) {
      return Columns().Field(row, entry);
    }
  }
  return none;
}

std::string KeyOf(const std::string& entry) {
  return entry.substr(0, entry.find('='));
}

std::string PublishedRow::Lower(std::string_view column) const {
  return LowerCase(Text(column));
}

std::optional<double> PublishedRow::Number(std::string_view column) const {
  const std::string& field = Text(column);
  return field.empty() ? std::nullopt : PlausibleNumber(column, field);
}

std::string PublishedRow::Fault() const {
  for (size_t row = 0; row < Columns().row_count(); ++row) {
    const std::string& column = Columns().Field(row, "column");
    const std::string& field = Text(column);
    const bool is_text = Columns().Field(row, "kind") == "text";
    if (!is_text && !field.empty() && !PlausibleNumber(column, field).has_value()) {
      return fmt::format("{}: '{}' is not a possible number", column, field);
    }
  }
  return {};
}

std::optional<int64_t> PublishedRow::Integer(std::string_view column) const {
  const std::optional<double> number = Number(column);
  const int64_t count = number.has_value() ? static_cast<int64_t>(*number) : 0;
  return count == 0 ? std::nullopt : std::optional(count);
}

bool PublishedRow::IsSilent(std::string_view column) const {
  const std::string text = Lower(column);
  return text == "n/a" || text.find_first_of("abcdefghijklmnopqrstuvwxyz0123456789") == text.npos ||
         text.starts_with("not ") || text.starts_with("unknown") || text.starts_with("unstated");
}

std::vector<std::string> PublishedRow::Words(std::string_view column) const {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : Lower(column)) {
    if (IsOfWord(c)) {
      if (!inside) {
        words.emplace_back();
      }
      words.back() += c;
    }
    inside = IsOfWord(c);
  }
  return words;
}

std::string PublishedRow::WordsText(std::string_view column) const {
  std::string text = Text(column).empty() ? "" : ".";
  for (const std::string& word : Words(column)) {
    text += word + ".";
  }
  return text;
}

bool PublishedRow::Fits(const Word& word) const {
  constexpr std::string_view kWords = ".words";
  constexpr std::string_view kExtra = "extra:";
  if (!Matches(word.source, LowerCase(Source()))) {
    return false;
  }
  const std::string_view column = word.column;
  if (column == "argument") {
    return std::ranges::any_of(Entries(), [&](const std::string& entry) {
      return Matches(word.text, entry) || Matches(word.text, KeyOf(entry));
    });
  }
  if (column.ends_with(kWords)) {
    return Matches(word.text, WordsText(column.substr(0, column.size() - kWords.size())));
  }
  if (column.starts_with(kExtra)) {
    return Matches(word.text, LowerCase(Extra(column.substr(kExtra.size()))));
  }
  if (column == "recipe") {
    return Matches(word.text, recipe_);
  }
  const size_t plus = std::min(column.find('+'), column.size());
  const std::string second = plus < column.size() ? "+" + Lower(column.substr(plus + 1)) : "";
  return Matches(
      word.text,
      (column == "source" ? LowerCase(Source()) : Lower(column.substr(0, plus))) + second);
}

std::string_view PublishedRow::Meaning(std::string_view field) const {
  const auto words = WordsAbout(field);
  const auto found = std::ranges::find_if(words, [&](const Word& word) { return Fits(word); });
  return found == words.end() ? std::string_view() : found->value;
}

std::vector<std::string_view> PublishedRow::Meanings(std::string_view field) const {
  std::vector<std::string_view> values;
  for (const Word& word : WordsAbout(field)) {
    if (Fits(word)) {
      values.emplace_back(word.value);
    }
  }
  return values;
}

std::optional<int64_t> PublishedRow::Meant(std::string_view field) const {
  int64_t number = 0;
  return ParseNumber(Meaning(field), &number) ? std::optional(number) : std::nullopt;
}

std::optional<bool> PublishedRow::Flag(std::string_view column) const {
  const std::string text = WordsText(column);
  for (const Word& word : WordsAbout("flag")) {
    if (Matches(word.text, text)) {
      return word.value == "yes";
    }
  }
  return std::nullopt;
}

bool PublishedRow::Knows(std::string_view column) const {
  const auto knows = [&](const std::string& field) {
    return std::ranges::any_of(WordsAbout(field), [&](const Word& word) {
      return word.column.substr(0, word.column.find('.')) == column && Fits(word);
    });
  };
  return IsSilent(column) || Flag(column).has_value() || knows("-") ||
         std::ranges::any_of(Alternatives(ColumnEntry(column, "words")), knows);
}

std::vector<std::string> PublishedRow::UnknownColumns() const {
  std::vector<std::string> unknown;
  for (size_t row = 0; row < Columns().row_count(); ++row) {
    const std::string& column = Columns().Field(row, "column");
    if (!Columns().Field(row, "words").empty() && !Knows(column)) {
      unknown.push_back(column);
    }
  }
  return unknown;
}

std::vector<std::string> PublishedRow::UnknownEntries() const {
  std::vector<std::string> unknown;
  for (const std::string& entry : Entries()) {
    const std::string key = KeyOf(entry);
    const std::string text = LowerCase(entry);
    bool is_typed = false;  // the key has words of its own, one of which must fit
    bool fits = false;
    bool is_named = entry.find_first_not_of(' ') == std::string::npos;
    for (const auto& [field, words] : AllWords()) {
      for (const Word& word : words) {
        const bool own = word.column == "extra:" + key;
        is_typed |= own;
        fits |= own && Fits(word);
        is_named |= (word.column == "extra" || word.column == "argument") &&
                    (Matches(word.text, text) || Matches(word.text, key)) &&
                    Matches(word.source, LowerCase(Source()));
      }
    }
    if (is_typed ? !fits : !is_named) {
      unknown.push_back(entry);
    }
  }
  return unknown;
}

PublishedRow PublishedRow::With(Assumptions* notes) const {
  PublishedRow row = *this;
  row.notes_ = notes;
  return row;
}

void PublishedRow::Assume(std::string text, double spread) const {
  if (notes_ != nullptr) {
    notes_->Add(std::move(text), spread);
  }
}

PublishedRow PublishedRow::WithRecipe(const std::string& recipe) const {
  PublishedRow row = *this;
  row.recipe_ = recipe;
  return row;
}

std::vector<std::string> PublishedRow::Entries() const {
  std::vector<std::string> entries;
  std::istringstream stream(Text("extra"));
  for (std::string entry; std::getline(stream, entry, ';');) {
    entries.push_back(entry);
  }
  return entries;
}

std::string PublishedRow::Extra(std::string_view key) const {
  for (const std::string& entry : Entries()) {
    if (entry.find('=') != std::string::npos && KeyOf(entry) == key) {
      return entry.substr(key.size() + 1);
    }
  }
  return {};
}

std::string PublishedRow::Source() const {
  const std::string& stated = Text("source_key");
  const std::string& id = Text("id");
  return stated.empty() ? id.substr(0, id.rfind('-')) : stated;
}

std::optional<double> PublishedRow::MeasuredSeconds() const {
  for (const char* column : {"iter_time_s", "iter_time_derived_s"}) {
    const std::optional<double> seconds = Number(column);
    if (seconds.has_value() && *seconds > 0) {
      return seconds;
    }
  }
  return std::nullopt;
}

std::optional<double> PublishedRow::PeakMemoryBytes() const {
  const std::optional<double> gib = Number("peak_mem_gib");
  return gib.has_value() && *gib > 0 ? std::optional(*gib * kBytesPerGib) : std::nullopt;
}

std::vector<PublishedRow> PublishedRow::RowsOfTable() const {
  std::vector<PublishedRow> rows;
  for (size_t row = 0; row < table_->row_count(); ++row) {
    rows.emplace_back(*table_, row);
  }
  return rows;
}

std::vector<PublishedRow> PublishedTable::Rows() const {
  return PublishedRow(csv, 0).RowsOfTable();
}

Result<PublishedTable> ReadPublishedTable(const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParsePublishedTable(text, path);
}

Result<PublishedTable> ParsePublishedTable(std::string_view text, const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(CsvTable csv, CsvTable::Parse(text, path));
  PRISM_RETURN_IF_ERROR(CheckColumns(csv, path));
  PRISM_RETURN_IF_ERROR(CheckIds(csv, path));
  std::vector<std::string> absent = AbsentColumns(csv);
  return PublishedTable{path, std::move(csv), std::move(absent)};
}

}  // namespace prism::launch
