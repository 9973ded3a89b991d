#include "launch/inputs/option_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace prism::launch {
namespace {

// What a switch may be set to ("--force=off", PRISM_FORCE=1): off and on by turns.
constexpr auto kSwitchWords =
    std::to_array<std::string_view>({"off", "on", "0", "1", "false", "true"});

// Underscores count as dashes in the name of an option, not in its value.
std::string WithDashes(std::string argument) {
  if (argument.starts_with("--")) {
    const size_t end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  }
  return argument;
}

Status UnknownOption(const std::vector<OptionRow>& rows,
                     const std::string& name,
                     const std::string& help) {
  std::vector<std::string> known;
  for (const OptionRow& row : rows) {
    known.push_back(row.flag);
  }
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  const std::string near = NearestName(bare, known);
  constexpr const char* kSize = "target-gpus";  // torchrun takes it in nodes
  std::string hint =
      near.empty() ? help : fmt::format("did you mean {}?", OptionRow{.flag = near}.dashed());
  if (bare == "nnodes" && std::ranges::find(known, kSize) != known.end()) {
    hint = fmt::format("--{} gives the number of ranks", kSize);
  }
  return InvalidArgument(fmt::format("unknown option {}; {}", name, hint));
}

Status RefuseRepeated(const std::vector<OptionRow>& rows, const GivenOptions& options) {
  for (const OptionRow& row : rows) {
    const auto given = options.find(row.key());
    if (given != options.end() && !row.is_repeatable && given->second.texts.size() > 1) {
      const std::vector<std::string>& texts = given->second.texts;
      return InvalidArgument(fmt::format("{} is given {}, as '{}'; give it once", row.dashed(),
                                         texts.size() == 2 ? "twice" : "several times",
                                         fmt::join(texts, "' and '")));
    }
  }
  return OkStatus();
}

// Whether the name is the beginning of the other, or words at its end: "dry", "gpus".
bool IsPart(std::string_view name, std::string_view whole) {
  constexpr size_t kShortest = 3;
  if (name.size() < kShortest || name.size() >= whole.size()) {
    return false;
  }
  const char before = whole[whole.size() - name.size() - 1];
  return whole.starts_with(name) ||
         (whole.ends_with(name) && (before == '-' || before == '_' || before == '.'));
}

constexpr size_t kHelpIndent = 34;
constexpr size_t kHelpWidth = 100;

}  // namespace

std::string UnknownWord(std::string_view text, const std::vector<std::string>& words) {
  return fmt::format("'{}' is unknown; choose one of {}", text, fmt::join(words, ", "));
}

Kind<int64_t> WholeNumber(int64_t lowest, int64_t highest, std::string value_name) {
  return {std::move(value_name),
          [lowest, highest](std::string_view text, int64_t* value) {
            return ParseNumber(text, value) && *value >= lowest && *value <= highest
                       ? ""
                       : fmt::format("'{}' is not a whole number from {} to {}", text, lowest,
                                     highest);
          },
          [](int64_t value) { return std::to_string(value); },
          /*is_bare=*/true};
}

Kind<double> NumberAbove0(std::string value_name, double highest) {
  return {std::move(value_name),
          [highest](std::string_view text, double* value) {
            return ParseNumber(text, value) && std::isfinite(*value) && *value > 0 &&
                           *value <= highest
                       ? ""
                       : fmt::format(
                             "'{}' is not a number above 0{}", text,
                             std::isinf(highest) ? "" : fmt::format(" and at most {}", highest));
          },
          [](double value) { return fmt::format("{}", value); },
          /*is_bare=*/true};
}

Kind<std::string> Text(std::string value_name, std::vector<std::string> suggestions) {
  return {std::move(value_name),
          [](std::string_view text, std::string* value) {
            *value = text;
            return std::string(text.empty() ? "is empty" : "");
          },
          [](const std::string& value) { return value; },
          /*is_bare=*/false, std::move(suggestions)};
}

Kind<std::string> OneOf(std::vector<std::string> words) {
  std::string value_name = fmt::format("{}", fmt::join(words, "|"));
  Kind<std::string> kind = Text(std::move(value_name), std::move(words));
  kind.read = [words = kind.words](std::string_view text, std::string* value) {
    *value = text;
    return std::ranges::find(words, text) == words.end() ? UnknownWord(text, words) : "";
  };
  return kind;
}

Kind<bool> OnOff() {
  static constexpr EnumNames<bool, 2> kNames = {{{false, "off"}, {true, "on"}}};
  Kind<bool> kind = OneOf(kNames);
  kind.value_name = "on|off";
  kind.is_bare = false;
  return kind;
}

Kind<bool> Switch() {
  return {"",
          [](std::string_view text, bool* value) {
            const auto word = std::ranges::find(kSwitchWords, text);
            *value = (word - kSwitchWords.begin()) % 2 == 1;
            return word == kSwitchWords.end()
                       ? UnknownWord(text, {kSwitchWords.begin(), kSwitchWords.end()})
                       : "";
          },
          [](bool value) { return std::string(value ? "true" : "false"); },
          /*is_bare=*/true};
}

bool OptionRow::names_file() const {
  return value_name.find("FILE") != value_name.npos || value_name.find("GRAPH") != value_name.npos;
}

std::string OptionRow::dashed() const {
  return (flag.size() == 1 ? "-" : "--") + flag;
}

std::string OptionRow::key() const {
  std::string key = flag;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string OptionRow::variable() const {
  std::string name = "PRISM_" + key();
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

Status Misread(const Given& given, const std::string& wrong) {
  const std::string message =
      fmt::format("{}{} {}", given.origin, wrong.starts_with("is ") ? "" : ":", wrong);
  return wrong.empty()        ? OkStatus()
         : given.file.empty() ? InvalidArgument(message)
                              : BadFile(message);
}

bool SplitCommandLine::IsOn(std::string_view key) const {
  const auto found = given.find(key);
  bool is_on = false;
  return found != given.end() && Switch().read(found->second.texts.back(), &is_on).empty() && is_on;
}

Result<SplitCommandLine> SplitArguments(const std::vector<OptionRow>& rows,
                                        const std::vector<std::string>& arguments,
                                        const std::string& help,
                                        bool takes_operands) {
  std::vector<OptionRow> known = {{.flag = "help"}};
  known.insert(known.end(), rows.begin(), rows.end());
  SplitCommandLine split;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = WithDashes(arguments[i]);
    if (argument.size() < 2 || argument.front() != '-') {
      split.operands.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const auto row = std::ranges::find_if(known, [&](const OptionRow& candidate) {
      return candidate.dashed() == (name == "-h" ? "--help" : name) ||
             (!candidate.alias.empty() && name == "--" + candidate.alias);
    });
    if (row == known.end() && !takes_operands && !split.operands.empty()) {
      split.operands.push_back(argument);
      continue;
    }
    if (row == known.end()) {
      return UnknownOption(known, name, help);
    }
    Given& given = split.given.try_emplace(row->key(), Given{{}, row->dashed(), ""}).first->second;
    if (equals != std::string::npos) {
      given.texts.push_back(argument.substr(equals + 1));
    } else if (!row->is_switch()) {
      if (i + 1 == arguments.size() || arguments[i + 1].starts_with("--")) {
        return InvalidArgument(fmt::format("{} needs a value; {}", name, help));
      }
      given.texts.push_back(arguments[++i]);
    } else if (given.texts.empty() || given.texts.back() != "on") {
      given.texts.emplace_back("on");
    }
    bool ignored = false;
    if (row->is_switch()) {
      PRISM_RETURN_IF_ERROR(Misread(given, Switch().read(given.texts.back(), &ignored)));
    }
  }
  PRISM_RETURN_IF_ERROR(RefuseRepeated(known, split.given));
  return split;
}

std::string OptionHelp(const OptionRow& row) {
  std::string line =
      fmt::format("  {}{}{} {}", row.alias.empty() ? "" : "--", row.alias,
                  row.alias.empty() ? row.dashed() : ", " + row.dashed(), row.value_name);
  if (line.size() >= kHelpIndent) {
    line += "\n";
    line.append(kHelpIndent, ' ');
  } else {
    line.resize(kHelpIndent, ' ');
  }
  std::string text;
  size_t column = kHelpIndent;
  std::istringstream words(
      row.default_text.empty() ? row.help : fmt::format("{} [{}]", row.help, row.default_text));
  for (std::string word; words >> word;) {
    if (column + 1 + word.size() > kHelpWidth) {
      text += "\n" + std::string(kHelpIndent, ' ');
      column = kHelpIndent;
    } else if (!text.empty()) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
  }
  return line + text + "\n";
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  // In halves of an edit. Further away it is another word; parts count between one edit and two.
  size_t best_distance = 2 * std::max(name.size() / 3, size_t{1}) + 2;
  for (const std::string& candidate : known) {
    const bool is_part = IsPart(name, candidate) || IsPart(candidate, name);
    const size_t edits = 2 * EditDistance(name, candidate);
    const size_t distance = is_part ? std::min(edits, size_t{3}) : edits;
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace prism::launch
