#include "experiments/published/run_log.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/parse_number.h"
#include "launch/inputs/csv_table.h"

#include "experiments/published/tables.h"
#include "experiments/published/words.h"

namespace prism::launch {
namespace {

constexpr std::string_view kProgressBar = "(progress bar)";  // in the place of a key

// Columns of what a run took: a log is of the framework whose line says that.
constexpr std::string_view kMeasured[] = {"iter_time_s", "samples_per_s", "tokens_per_s_per_gpu"};

struct LogLine {
  std::string framework;
  std::string before;  // the value, and
  std::string behind;  // what stands there; "": its own end
  std::string is;
  std::string column;
  std::string value;
  std::string take;
  double factor = 1;
};

const std::vector<LogLine>& LogLines() {
  static const std::vector<LogLine> lines = [] {
    const Result<CsvTable> csv = CsvTable::Parse(kLogsCsv, "logs.csv");
    std::vector<LogLine> read;
    for (size_t row = 0; row < csv->row_count(); ++row) {
      const std::string& key = csv->Field(row, "key");
      const size_t star = key.find('*');
      double factor = 1;
      ParseNumber(csv->Field(row, "factor"), &factor);
      read.push_back({csv->Field(row, "framework"), key.substr(0, star),
                      star == std::string::npos ? "" : key.substr(star + 1), csv->Field(row, "is"),
                      csv->Field(row, "column"), csv->Field(row, "value"), csv->Field(row, "take"),
                      factor});
    }
    return read;
  }();
  return lines;
}

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

// Colours of a terminal.
std::string WithoutEscapes(std::string_view line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    while (i < line.size() && std::isalpha(static_cast<unsigned char>(line[i])) == 0) {
      ++i;
    }
  }
  return plain;
}

// From `begin` on: after dots, quotes and signs, up to a blank or what ends a value in a list or in
// Python. A comma between digits is part of a number.
std::string ValueFrom(std::string_view line, size_t begin) {
  begin = line.find_first_not_of(" \t.:=|'\"", begin);
  if (begin == std::string_view::npos) {
    return "";
  }
  size_t end = begin;
  const auto is_digit = [&](size_t i) {
    return i < line.size() && std::isdigit(static_cast<unsigned char>(line[i])) != 0;
  };
  while (end < line.size() && std::string_view(" \t|'\")]};").find(line[end]) == line.npos &&
         (line[end] != ',' || is_digit(end + 1))) {
    ++end;
  }
  return std::string(line.substr(begin, end - begin));
}

// What stands before the percentage of the bar over the steps; bars over files or examples say what
// they load or map.
constexpr std::string_view kBarNames[] = {"", "Steps", "Training", "Train", "Epoch", "train"};

// The seconds of an iteration: "Steps:  3%|#  | 30/1000 [00:45<24:15,  1.50s/it, loss=2.1]", or
// "2.00it/s".
std::optional<std::string> OfProgressBar(std::string_view line) {
  const size_t percent = line.find("%|");
  if (percent == line.npos) {
    return std::nullopt;
  }
  const std::string_view before =
      line.substr(0, line.find_last_not_of("0123456789 ", percent - 1) + 1);
  const std::string_view name = before.substr(0, before.find_first_of(": "));
  const bool is_rate = line.find("it/s", percent) != line.npos;
  const size_t unit = line.find(is_rate ? "it/s" : "s/it", percent);
  if (std::ranges::count(kBarNames, name) == 0 || unit == line.npos) {
    return std::nullopt;
  }
  const size_t blank = line.find_last_of(" ,", unit);
  double number = 0;
  if (blank == line.npos || !ParseNumber(line.substr(blank + 1, unit - blank - 1), &number) ||
      !(number > 0)) {
    return std::nullopt;
  }
  return fmt::format("{}", is_rate ? 1 / number : number);
}

std::optional<std::string> Find(const LogLine& wanted, std::string_view line) {
  if (wanted.before == kProgressBar) {
    return OfProgressBar(line);
  }
  for (size_t at = line.find(wanted.before); at != line.npos;
       at = line.find(wanted.before, at + 1)) {
    const size_t end = at + wanted.before.size();
    const bool begins = at == 0 || !IsWordCharacter(line[at - 1]);
    const bool ends =
        end == line.size() || !IsWordCharacter(line[end]) || !IsWordCharacter(wanted.before.back());
    if (!begins || !ends) {
      continue;
    }
    if (wanted.behind.empty()) {
      return ValueFrom(line, end);
    }
    const size_t behind = line.find(wanted.behind, end);
    if (behind != line.npos) {
      return std::string(line.substr(end, behind - end));
    }
  }
  return std::nullopt;
}

// "5,878", "11.5K".
std::optional<double> NumberIn(std::string text) {
  std::erase(text, ',');
  double factor = 1;
  if (!text.empty()) {
    const size_t unit = std::string_view("KMG").find(text.back());
    for (size_t i = 0; unit != std::string_view::npos && i <= unit; ++i) {
      factor *= 1000;
    }
    if (factor != 1) {
      text.pop_back();
    }
  }
  double number = 0;
  return ParseNumber(text, &number) ? std::optional(number * factor) : std::nullopt;
}

double MedianOfLaterHalf(const std::vector<double>& numbers) {
  std::vector<double> later(numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2),
                            numbers.end());
  const auto middle = later.begin() + static_cast<ptrdiff_t>(later.size() / 2);
  std::nth_element(later.begin(), middle, later.end());
  return *middle;
}

// Megatron's block of arguments, as entries of the column extra: "swiglu;kv-channels=128".
std::string MegatronArgument(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t");
  const size_t dots = line.find(" ...");
  if (begin == std::string::npos || dots == std::string::npos || dots <= begin) {
    return "";
  }
  std::string name = line.substr(begin, dots - begin);
  // What starts many processes puts the rank before their lines: "3: ", "[default3]:".
  const size_t blank = name.find_last_of(" \t");
  const size_t label = blank == std::string::npos ? blank : name.find_last_not_of(" \t", blank);
  if (label != std::string::npos && (name[label] == ':' || name[label] == ']')) {
    name.erase(0, blank + 1);
  }
  const std::string value = ValueFrom(line, dots);
  if (name.find(' ') != std::string::npos || value.empty() || value == "None") {
    return "";
  }
  if (name != "transformer_impl") {  // as the tests' rows spell it
    std::ranges::replace(name, '_', '-');
  }
  if (value == "True") {
    return name;
  }
  if (value == "False") {
    return name.ends_with("-fusion") ? "no-" + name : "";
  }
  return name + "=" + value;
}

// All that a log says: by line of logs.csv, and Megatron's arguments.
struct Found {
  std::vector<std::vector<std::string>> values;
  std::set<std::string> arguments;
};

Found FindAll(std::string_view text) {
  Found found;
  found.values.resize(LogLines().size());
  while (!text.empty()) {
    // Of Windows, or of a progress bar, which writes over its line.
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string line = WithoutEscapes(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    for (size_t i = 0; i < LogLines().size(); ++i) {
      const LogLine& wanted = LogLines()[i];
      const bool once = wanted.take == "first" && !found.values[i].empty();
      const std::optional<std::string> value = once ? std::nullopt : Find(wanted, line);
      const bool is_silent = !value.has_value() || *value == "None";
      if (!is_silent && (wanted.is.empty() || std::ranges::any_of(Alternatives(wanted.is),
                                                                  [&](const std::string& pattern) {
                                                                    return Matches(pattern, *value);
                                                                  }))) {
        found.values[i].push_back(*value);
      }
    }
    if (std::string argument = MegatronArgument(line); !argument.empty()) {
      found.arguments.insert(std::move(argument));
    }
  }
  return found;
}

// Writes what was found for a line; texts that should be numbers are left out.
void Write(const LogLine& wanted,
           const std::vector<std::string>& values,
           std::map<std::string, std::string>* columns) {
  if (values.empty() || (wanted.before == kProgressBar && columns->contains("samples_per_s"))) {
    return;
  }
  std::string& column = (*columns)[wanted.column];
  if (wanted.take == "first") {
    const std::optional<double> number = NumberIn(values.front());
    column = !wanted.value.empty() ? wanted.value
             : number.has_value()  ? fmt::format("{}", *number)
                                   : values.front();
    return;
  }
  std::vector<double> numbers;
  for (const std::string& value : values) {
    if (const std::optional<double> number = NumberIn(value); number.has_value()) {
      numbers.push_back(*number);
    }
  }
  if (numbers.empty()) {
    return;
  }
  if (wanted.take == "product") {
    column = fmt::format("{}", NumberIn(column).value_or(1) * numbers.front());
    return;
  }
  column = fmt::format("{}", MedianOfLaterHalf(numbers) * wanted.factor);
}

}  // namespace

Result<std::map<std::string, std::string>> ReadRunLog(std::string_view text,
                                                      const std::string& where) {
  const Found found = FindAll(text);
  std::string framework;
  std::string by_bar;  // which any of them may show
  std::vector<std::string> known;
  for (size_t i = 0; i < LogLines().size(); ++i) {
    const LogLine& wanted = LogLines()[i];
    if (known.empty() || known.back() != wanted.framework) {
      known.push_back(wanted.framework);
    }
    const bool measures = std::ranges::count(kMeasured, wanted.column) > 0;
    if (measures && !found.values[i].empty()) {
      std::string& by = wanted.before == kProgressBar ? by_bar : framework;
      by = by.empty() ? wanted.framework : by;
    }
  }
  framework = framework.empty() ? by_bar : framework;
  if (framework.empty()) {
    return BadFile(fmt::format("{}: no line with a measured iteration, as the logs of {} have",
                               where, fmt::join(known, ", ")));
  }
  std::map<std::string, std::string> columns = {{"framework", framework}};
  for (size_t i = 0; i < LogLines().size(); ++i) {
    if (LogLines()[i].framework == framework) {
      Write(LogLines()[i], found.values[i], &columns);
    }
  }
  if (!found.arguments.empty()) {
    columns["extra"] = fmt::format("{}", fmt::join(found.arguments, ";"));
  }
  return columns;
}

}  // namespace prism::launch
