#include "launch/inputs/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/inputs/config_file.h"

namespace prism::launch {
namespace {

constexpr std::string_view kVariableBeginning = "PRISM_";

// What the shim, the tests and the stand-ins for a driver read.
constexpr auto kOwnVariables = std::to_array<std::string_view>(
    {"BLOCK_EVENTS",    "CHANNEL_FD",    "CHANNEL_PATH", "DRIVER", "EXCHANGE",    "FAKE_GPU",
     "FAKE_GPU_LOG",    "GOLDEN_UPDATE", "GUARD",        "HOLD",   "LAUNCH",      "LAUNCH_FILE",
     "LAUNCH_PLACE",    "PYTHON",        "STACK_FD",     "STORE",  "TEST_DEVICE", "TORCH",
     "TORCH_LIBRARIES", "VALUES",        "VALUES_BYTES"});

// Variables of the environment that look like options (PRISM_...) and are none. One whose name
// differs from an option's by one letter is a typing error, like an unknown flag. Others may belong
// to other software, as may short ones, which are close to any name: those are returned.
Result<std::vector<std::string>> UnknownVariables() {
  constexpr size_t kShortest = 6;
  std::vector<std::string> unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view variable = text.substr(0, text.find('='));
    const std::string_view name =
        variable.substr(std::min(kVariableBeginning.size(), variable.size()));
    if (!text.starts_with(kVariableBeginning) ||
        std::ranges::find(OptionTable(), variable, &OptionRow::variable) != OptionTable().end() ||
        std::ranges::find(kOwnVariables, name) != kOwnVariables.end()) {
      continue;
    }
    const auto meant = std::ranges::find_if(OptionTable(), [&](const OptionRow& row) {
      return EditDistance(variable, row.variable()) == 1;
    });
    if (meant != OptionTable().end() && name.size() >= kShortest) {
      return InvalidArgument(
          fmt::format("{} is set, but there is no such option; did you mean {}? Rename or unset it",
                      variable, meant->variable()));
    }
    unknown.emplace_back(variable);
  }
  std::ranges::sort(unknown);
  return unknown;
}

Result<SplitCommandLine> ParseArguments(const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes != arguments.end() && dashes + 1 == arguments.end()) {
    return InvalidArgument("no program after --; name one, or leave -- out");
  }
  std::vector<OptionRow> rows = RowsOf(OptionTable());
  rows.push_back({.flag = "version"});
  PRISM_ASSIGN_OR_RETURN(
      SplitCommandLine split,
      SplitArguments(rows, {arguments.begin(), dashes}, "see --help", /*takes_operands=*/false));
  if (!split.operands.empty()) {
    const std::string& first = split.operands.front();
    int64_t number = 0;
    const bool is_program = dashes == arguments.end() && !ParseNumber(first, &number);
    return InvalidArgument(fmt::format(
        "unexpected argument '{}'; {}", first,
        is_program ? fmt::format("a program goes after --: -- {}", fmt::join(split.operands, " "))
                   : "see --help"));
  }
  if (dashes != arguments.end()) {
    split.given[ProgramOption().key()] = {{dashes + 1, arguments.end()}, "-- PROGRAM", ""};
  }
  return split;
}

// Adds the values of the environment, which has several of a repeatable option with spaces between
// them, with lower priority than those already there.
Status AddVariables(GivenOptions* given) {
  for (const OptionRow& row : OptionTable()) {
    const std::string variable = row.variable();
    const char* text = std::getenv(variable.c_str());
    if (text == nullptr || given->contains(row.key())) {
      continue;
    }
    std::vector<std::string> texts = {text};
    if (row.is_repeatable) {
      std::istringstream words(text);
      texts = {std::istream_iterator<std::string>(words), {}};
    }
    if (texts.empty() || texts.front().empty()) {
      return InvalidArgument(fmt::format("{} is empty; give it a value or unset it", variable));
    }
    (*given)[row.key()] = {std::move(texts), variable, ""};
  }
  return OkStatus();
}

// Whether the message names the option, and not one whose name only begins like it.
bool Mentions(std::string_view message, std::string_view flag) {
  const std::string name = fmt::format("--{}", flag);
  for (size_t at = message.find(name); at != message.npos; at = message.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == message.size() || message.find_first_of("abcdefghijklmnopqrstuvwxyz-", end) != end) {
      return true;
    }
  }
  return false;
}

// Whether the message names the option by its value, as one of a layout: "of tp 8 × pp 16".
bool MentionsValue(std::string_view message, std::string_view flag, std::string_view value) {
  const std::string words = fmt::format(" {} {}", flag, value);
  const size_t at = message.find(words);
  const size_t end = at + words.size();
  return at != message.npos &&
         (end == message.size() || message.find_first_of("0123456789", end) != end);
}

Result<Options> TypedOptions(GivenOptions given) {
  Options options;
  PRISM_RETURN_IF_ERROR(ReadOptions(OptionTable(), given, &options));
  PRISM_RETURN_IF_ERROR(ReadOptions({ProgramOption()}, given, &options));
  options.given = std::move(given);
  return options;
}

bool IsVariable(const Given& given) {
  return given.file.empty() && given.origin.starts_with(kVariableBeginning);
}

std::string FlagOf(std::string_view key) {
  std::string flag(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

}  // namespace

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  PRISM_ASSIGN_OR_RETURN(SplitCommandLine split, ParseArguments(arguments));
  CommandLine line;
  line.show_help = split.IsOn("help");
  line.show_version = split.IsOn("version");
  if (line.show_help || line.show_version) {
    return line;
  }
  PRISM_ASSIGN_OR_RETURN(line.unknown_variables, UnknownVariables());
  InputHashes read;
  PRISM_RETURN_IF_ERROR(AddVariables(&split.given));
  if (const auto config = split.given.find("config"); config != split.given.end()) {
    PRISM_ASSIGN_OR_RETURN(GivenOptions more, ReadConfigFile(config->second.texts.back(), &read));
    split.given.merge(more);
  }
  PRISM_ASSIGN_OR_RETURN(line.options, TypedOptions(std::move(split.given)));
  line.options.inputs = std::move(read);
  return line;
}

Status AtOrigin(const Options& options,
                const std::vector<std::string_view>& keys,
                const Status& status) {
  std::vector<std::string_view> named;
  std::string file;
  for (const std::string_view key : keys) {
    const auto given = options.given.find(key);
    if (given == options.given.end()) {
      continue;
    }
    if (given->second.file.empty()) {
      return keys.size() > 1 || status.ok() || !IsVariable(given->second) ||
                     Mentions(status.message(), FlagOf(key))
                 ? status
                 : status.WithContext(given->second.origin);
    }
    file = given->second.file;
    named.push_back(key);
  }
  return named.empty() || status.code() != StatusCode::kInvalidArgument
             ? status
             : BadFile(fmt::format("{}: {}: {}", file, fmt::join(named, ", "), status.message()));
}

Status NamingOrigins(const Options& options, const Status& status) {
  const std::string& refusal = status.message();
  std::string message = refusal;
  for (const OptionRow& row : OptionTable()) {
    const auto found = options.given.find(row.key());
    if (found == options.given.end()) {
      continue;
    }
    const Given& given = found->second;
    if (!Mentions(refusal, row.flag) && !MentionsValue(refusal, row.flag, given.texts.back())) {
      continue;
    }
    if (IsVariable(given)) {
      message += fmt::format("; --{} is set by {}", row.flag, given.origin);
    }
    // AtOrigin begins with the file where nothing else is at fault.
    if (!given.file.empty() && !refusal.starts_with(given.file)) {
      message += fmt::format("; {} = {} is set in {}", row.key(), fmt::join(given.texts, ", "),
                             given.file);
    }
  }
  return {status.code(), message};
}

Result<Options> ReadRunOptions(const std::string& config_file) {
  InputHashes read;
  PRISM_ASSIGN_OR_RETURN(GivenOptions given, ReadConfigFile(config_file, &read));
  PRISM_ASSIGN_OR_RETURN(Options options, TypedOptions(std::move(given)));
  options.inputs = std::move(read);
  return options;
}

}  // namespace prism::launch
