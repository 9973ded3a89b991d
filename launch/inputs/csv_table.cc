#include "launch/inputs/csv_table.h"

#include <utility>

#include <fmt/format.h>

namespace prism::launch {
namespace {

std::string Trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Splits a file into records.
class RecordReader {
 public:
  RecordReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  [[nodiscard]] bool AtEnd() const { return at_ >= text_.size(); }
  [[nodiscard]] int64_t line() const { return line_; }

  Result<std::vector<std::string>> Next() {
    std::vector<std::string> fields;
    bool more = true;
    while (more) {
      PRISM_ASSIGN_OR_RETURN(std::string field, NextField());
      fields.push_back(Trimmed(field));
      more = !AtEnd() && text_[at_] == ',';
      if (!AtEnd()) {
        line_ += text_[at_] == '\n' ? 1 : 0;
        ++at_;
      }
    }
    return fields;
  }

 private:
  // Up to a comma or the end of the line, which stays.
  Result<std::string> NextField() {
    std::string field;
    bool quoted = false;
    const int64_t begin = line_;
    for (; !AtEnd(); ++at_) {
      const char c = text_[at_];
      if (c == '\0') {
        return BadFile(fmt::format("{}:{}: not a text file", where_, line_));
      }
      if (c == '"') {
        const bool doubled = quoted && at_ + 1 < text_.size() && text_[at_ + 1] == '"';
        if (doubled) {
          field += '"';
          ++at_;
        } else {
          quoted = !quoted;
        }
        continue;
      }
      if (!quoted && (c == ',' || c == '\n')) {
        return field;
      }
      line_ += c == '\n' ? 1 : 0;
      field += c;
    }
    if (quoted) {
      return BadFile(
          fmt::format("{}:{}: the quote that opens here is never closed", where_, begin));
    }
    return field;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace

Status CsvTable::AddRecord(std::vector<std::string> fields,
                           int64_t line,
                           const std::string& where) {
  if (fields.size() == 1 && fields.front().empty()) {
    return OkStatus();  // an empty line
  }
  if (fields.size() != columns_.size() && columns_.size() == 1) {
    return BadFile(
        fmt::format("{}:1: '{}' is no header of a table; columns are separated by commas", where,
                    columns_.front()));
  }
  if (fields.size() != columns_.size()) {
    return BadFile(fmt::format("{}:{}: {} fields, but the header has {}", where, line,
                               fields.size(), columns_.size()));
  }
  rows_.push_back(std::move(fields));
  lines_.push_back(line);
  return OkStatus();
}

Result<CsvTable> CsvTable::Parse(std::string_view text, const std::string& where) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  CsvTable table;
  RecordReader reader(text, where);
  PRISM_ASSIGN_OR_RETURN(table.columns_, reader.Next());
  for (size_t column = 0; column < table.columns_.size(); ++column) {
    if (!table.index_.emplace(table.columns_[column], column).second) {
      return BadFile(
          fmt::format("{}:1: there are two columns '{}'", where, table.columns_[column]));
    }
  }
  while (!reader.AtEnd()) {
    const int64_t line = reader.line();
    PRISM_ASSIGN_OR_RETURN(std::vector<std::string> fields, reader.Next());
    PRISM_RETURN_IF_ERROR(table.AddRecord(std::move(fields), line, where));
  }
  if (table.rows_.empty()) {
    return BadFile(fmt::format("{}: no rows below the header", where));
  }
  return table;
}

bool CsvTable::HasColumn(std::string_view name) const {
  return index_.find(name) != index_.end();
}

const std::string& CsvTable::Field(size_t row, std::string_view column) const {
  static const std::string kEmpty;
  const auto found = index_.find(column);
  return found == index_.end() ? kEmpty : rows_[row][found->second];
}

}  // namespace prism::launch
