#include "launch/inputs/launcher_line.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/validate/limits.h"
#include "launch/inputs/option_table.h"

namespace prism::launch {
namespace {

struct LineOption {
  std::vector<std::string> names;
  size_t values = 0;
  bool is_used = false;
};

std::vector<LineOption> OptionsIn(const char* words, bool is_used) {
  std::vector<LineOption> options;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    LineOption option;
    option.is_used = is_used;
    while (word.ends_with('=')) {
      word.pop_back();
      ++option.values;
    }
    std::istringstream names(word);
    for (std::string name; std::getline(names, name, '|');) {
      option.names.push_back(name);
    }
    options.push_back(std::move(option));
  }
  return options;
}

// A word of the command line that begins with a dash.
struct DashedWord {
  size_t dashes = 0;
  std::string name;                 // underscores as dashes
  std::optional<std::string> text;  // behind '='
};

DashedWord Dashed(const std::string& word) {
  DashedWord dashed;
  dashed.dashes = std::min(word.find_first_not_of('-'), size_t{2});
  const size_t equals = word.find('=');
  dashed.name = word.substr(dashed.dashes, equals - std::min(equals, dashed.dashes));
  std::ranges::replace(dashed.name, '_', '-');
  if (equals != word.npos) {
    dashed.text = word.substr(equals + 1);
  }
  return dashed;
}

bool IsNamed(const LineOption& option, const std::string& name) {
  return std::ranges::any_of(option.names, [&](const std::string& known) {
    return known == name ||
           (known.ends_with('*') && name.starts_with(known.substr(0, known.size() - 1)));
  });
}

class LineSplitter {
 public:
  explicit LineSplitter(const LauncherOptions& options)
      : options_(options), known_(OptionsIn(options.used, true)) {
    const std::vector<LineOption> more = OptionsIn(options.ignored, false);
    known_.insert(known_.end(), more.begin(), more.end());
  }

  // The option that the word names; a value may be attached to a single letter ("-n4").
  [[nodiscard]] const LineOption* Find(DashedWord* word) const {
    const bool is_long = word->name.size() > 1;
    if (is_long == (word->dashes == 2) || options_.one_dash) {
      for (const LineOption& option : known_) {
        if (IsNamed(option, word->name)) {
          return &option;
        }
      }
      return word->dashes == 2 && options_.abbreviates ? Abbreviated(word->name) : nullptr;
    }
    const std::string letter = word->name.substr(0, 1);
    const auto found = std::ranges::find_if(known_, [&](const LineOption& option) {
      return option.values == 1 && IsNamed(option, letter);
    });
    if (word->dashes != 1 || found == known_.end()) {
      return nullptr;
    }
    word->text = word->name.substr(1) + (word->text ? "=" + *word->text : "");
    word->name = letter;
    return &*found;
  }

  [[nodiscard]] Status Unknown(const std::string& word) const {
    std::vector<std::string> names;
    for (const LineOption& option : known_) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
    const std::string near = NearestName(Dashed(word).name, names);
    return InvalidArgument(fmt::format(
        "{}: the option {} is not known here{}; leave it out, or name what {} would start, with "
        "--gpus N: -- python train.py",
        options_.name, word.substr(0, word.find('=')),
        near.empty() ? "" : fmt::format(" (did you mean {}?)", OptionRow{.flag = near}.dashed()),
        options_.name));
  }

 private:
  [[nodiscard]] const LineOption* Abbreviated(const std::string& name) const {
    const LineOption* found = nullptr;
    for (const LineOption& option : known_) {
      for (const std::string& known : option.names) {
        if (known.starts_with(name)) {
          if (found != nullptr && found != &option) {
            return nullptr;
          }
          found = &option;
        }
      }
    }
    return found;
  }

  const LauncherOptions& options_;
  std::vector<LineOption> known_;
};

}  // namespace

Result<LauncherLine> LauncherLine::Split(const LauncherOptions& options,
                                         const std::vector<std::string>& words,
                                         size_t first) {
  const LineSplitter splitter(options);
  LauncherLine line;
  line.launcher_ = options.name;
  size_t i = first;
  for (; i < words.size() && words[i].size() > 1 && words[i].starts_with('-'); ++i) {
    if (words[i] == "--") {
      ++i;
      break;
    }
    const size_t begin = i;
    DashedWord word = Dashed(words[i]);
    const LineOption* const option = splitter.Find(&word);
    if (option == nullptr || (word.text && option->values != 1)) {
      return splitter.Unknown(words[i]);
    }
    std::vector<std::string> values;
    if (word.text) {
      values.push_back(*word.text);
    }
    while (values.size() < option->values && i + 1 < words.size()) {
      values.push_back(words[++i]);
    }
    if (values.size() < option->values) {
      return line.Wrong(fmt::format("{} needs a value", words[begin]));
    }
    if (option->is_used) {
      const std::string& key =
          option->names.front().ends_with('*') ? word.name : option->names.front();
      line.given_[key].push_back(fmt::format("{}", fmt::join(values, " ")));
    } else {
      line.ignored_.push_back(
          fmt::format("{}", fmt::join(words.begin() + static_cast<ptrdiff_t>(begin),
                                      words.begin() + static_cast<ptrdiff_t>(i) + 1, " ")));
    }
  }
  line.program_.assign(words.begin() + static_cast<ptrdiff_t>(std::min(i, words.size())),
                       words.end());
  if (line.program_.empty()) {
    return line.Wrong(
        fmt::format("no program behind its options; name one, as in {} train.py", options.name));
  }
  return line;
}

std::string LauncherLine::Text(std::string_view name, const std::string& fallback) const {
  const auto found = given_.find(name);
  return found == given_.end() ? fallback : found->second.back();
}

std::vector<std::string> LauncherLine::Texts(std::string_view name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? std::vector<std::string>() : found->second;
}

Status LauncherLine::ReadCount(std::string_view name, std::optional<int32_t>* count) const {
  if (!Has(name)) {
    return OkStatus();
  }
  int64_t number = 0;
  const std::string wrong = WholeNumber(1, graph::kMaxRanks).read(Text(name), &number);
  *count = static_cast<int32_t>(number);
  return wrong.empty()
             ? OkStatus()
             : Wrong(fmt::format("{}: {}", OptionRow{.flag = std::string(name)}.dashed(), wrong));
}

Status LauncherLine::Wrong(const std::string& message) const {
  return InvalidArgument(fmt::format("{}: {}", launcher_, message));
}

}  // namespace prism::launch
