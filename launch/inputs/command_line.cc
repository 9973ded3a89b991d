#include "launch/inputs/command_line.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/inputs/options.h"

namespace prism::launch {
namespace {

// Underscores count as dashes in the name of an option, not in its value.
std::string WithDashes(const std::string& argument) {
  if (!argument.starts_with("--")) {
    return argument;
  }
  std::string result = argument;
  const size_t end = std::min(result.find('='), result.size());
  std::replace(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return result;
}

// "--seed", but "-o": one-letter names have one dash.
std::string Dashed(const std::string& flag_and_value) {
  return (flag_and_value.find(' ') == 1 || flag_and_value.size() == 1 ? "-" : "--") +
         flag_and_value;
}

// What torchrun calls the number of ranks.
constexpr std::string_view kTorchrunSizes[] = {"nnodes", "nproc-per-node"};

Status UnknownOption(const std::vector<FlagSpec>& flags,
                     const std::string& argument,
                     const std::string& help) {
  std::vector<std::string> known;
  for (const FlagSpec& flag : flags) {
    known.push_back(flag.name);
  }
  const std::string name = argument.substr(0, argument.find('='));
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const std::string bare = name.substr(dashes);
  const std::string near = NearestName(bare, known);
  std::string hint =
      near.empty() ? fmt::format("see {}", help) : fmt::format("did you mean {}?", Dashed(near));
  constexpr const char* kSize = "target-gpus";
  if (std::ranges::find(kTorchrunSizes, bare) != std::end(kTorchrunSizes) &&
      std::ranges::find(known, kSize) != known.end()) {
    hint = fmt::format("--{} gives the number of ranks", kSize);
  }
  return InvalidArgument(fmt::format("unknown option {}; {}", name, hint));
}

Status RefuseRepeated(const std::vector<FlagSpec>& flags, const SplitCommandLine& split) {
  for (const FlagSpec& flag : flags) {
    const auto given = split.texts.find(flag.name);
    if (!flag.repeatable && given != split.texts.end() && given->second.size() > 1) {
      return InvalidArgument(fmt::format("{} is given {}, as '{}'; give it once", Dashed(flag.name),
                                         given->second.size() == 2 ? "twice" : "several times",
                                         fmt::join(given->second, "' and '")));
    }
  }
  return OkStatus();
}

// The arguments for CLI11, which would take "--force" for the value of the option before it and
// "--force=2" for "--force": switches with a value move to `split`.
Result<std::vector<std::string>> CheckArguments(const std::vector<FlagSpec>& flags,
                                                const std::vector<std::string>& arguments,
                                                const std::string& help,
                                                SplitCommandLine* split) {
  std::vector<std::string> checked;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = WithDashes(arguments[i]);
    const std::string name = argument.substr(0, argument.find('='));
    const bool has_value = name.size() < argument.size();
    const auto flag =
        std::ranges::find(flags, name, [](const FlagSpec& known) { return Dashed(known.name); });
    const bool is_known = flag != flags.end();
    if (is_known && flag->is_switch && has_value) {
      const std::string word = argument.substr(name.size() + 1);
      if (std::ranges::find(kSwitchWords, word) == kSwitchWords.end()) {
        return InvalidArgument(fmt::format("{}: '{}' is unknown; choose one of {}", name, word,
                                           fmt::join(kSwitchWords, ", ")));
      }
      split->texts[flag->name].push_back(word);
      continue;
    }
    if (is_known && !flag->is_switch && !has_value && i + 1 < arguments.size() &&
        arguments[i + 1].starts_with("--")) {
      return InvalidArgument(fmt::format("{} needs a value; see {}", name, help));
    }
    checked.push_back(argument);
  }
  return checked;
}

constexpr size_t kHelpIndent = 34;
constexpr size_t kHelpWidth = 100;

}  // namespace

std::string OptionHelp(const std::string& flag_and_value,
                       const std::string& help,
                       const std::string& default_text) {
  std::string line = "  " + Dashed(flag_and_value);
  if (line.size() >= kHelpIndent) {
    line += "\n";
    line.append(kHelpIndent, ' ');
  } else {
    line.resize(kHelpIndent, ' ');
  }
  std::string text;
  size_t column = kHelpIndent;
  std::istringstream words(default_text.empty() ? help
                                                : fmt::format("{} [{}]", help, default_text));
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

bool SplitCommandLine::IsOn(std::string_view name) const {
  const auto given = texts.find(name);
  return given != texts.end() &&
         (std::ranges::find(kSwitchWords, given->second.back()) - kSwitchWords.begin()) % 2 == 1;
}

Result<SplitCommandLine> SplitArguments(const std::vector<FlagSpec>& flags,
                                        const std::vector<std::string>& arguments,
                                        const std::string& help,
                                        bool takes_operands) {
  SplitCommandLine split;
  PRISM_ASSIGN_OR_RETURN(std::vector<std::string> checked,
                         CheckArguments(flags, arguments, help, &split));
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras(true);
  std::map<std::string, bool> switches;
  for (const FlagSpec& flag : flags) {
    const std::string name = Dashed(flag.name) + (flag.name == "help" ? ",-h" : "");
    if (flag.is_switch) {
      app.add_flag(name, switches[flag.name]);
    } else {
      app.add_option(name, split.texts[flag.name])
          ->expected(1)
          ->allow_extra_args(false)  // else the text after the value would count as another value
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
  std::ranges::reverse(checked);  // as CLI11 wants them
  try {
    app.parse(checked);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();  // "--rank: 1 required TEXT missing"
    return InvalidArgument(
        fmt::format("{} needs a value; see {}", what.substr(0, what.find(':')), help));
  } catch (const CLI::ParseError& error) {
    return InvalidArgument(fmt::format("{}; see {}", error.what(), help));
  }
  for (const std::string& rest : app.remaining()) {
    const bool is_option = rest.size() > 1 && rest.front() == '-';
    if (is_option && (takes_operands || split.operands.empty())) {
      return UnknownOption(flags, rest, help);
    }
    split.operands.push_back(rest);
  }
  for (const auto& [name, on] : switches) {
    if (on) {
      split.texts[name].emplace_back("on");
    }
  }
  PRISM_RETURN_IF_ERROR(RefuseRepeated(flags, split));
  std::erase_if(split.texts, [](const auto& entry) { return entry.second.empty(); });
  return split;
}

}  // namespace prism::launch
