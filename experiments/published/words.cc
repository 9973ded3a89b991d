#include "experiments/published/words.h"

#include <map>
#include <sstream>
#include <vector>

#include <fnmatch.h>

#include "launch/inputs/csv_table.h"

#include "experiments/published/tables.h"

namespace prism::launch {
namespace {

using WordTable = std::map<std::string, std::vector<Word>, std::less<>>;

WordTable ReadWords() {
  const Result<CsvTable> csv = CsvTable::Parse(kWordsCsv, "words.csv");
  WordTable table;
  for (size_t row = 0; row < csv->row_count(); ++row) {
    for (const std::string& column : Alternatives(csv->Field(row, "column"))) {
      for (const std::string& text : Alternatives(csv->Field(row, "text"))) {
        table[csv->Field(row, "field")].push_back(
            {csv->Field(row, "source"), column, text, csv->Field(row, "value")});
      }
    }
  }
  return table;
}

}  // namespace

std::vector<std::string> Alternatives(const std::string& text) {
  std::vector<std::string> parts(text.empty() ? 1 : 0);
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, '|');) {
    parts.push_back(part);
  }
  return parts;
}

const WordTable& AllWords() {
  static const WordTable table = ReadWords();
  return table;
}

std::span<const Word> WordsAbout(std::string_view field) {
  const auto found = AllWords().find(field);
  return found == AllWords().end() ? std::span<const Word>() : found->second;
}

bool Matches(const std::string& pattern, const std::string& text) {
  return pattern == "*" || fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

}  // namespace prism::launch
