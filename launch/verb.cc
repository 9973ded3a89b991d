#include "launch/verb.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace prism::launch {
namespace {

constexpr VerbOption kFormatOption = {"format", "text|json", "text", "what is printed on stdout"};

std::string WithDashes(const std::string& argument) {
  if (!argument.starts_with("--")) {
    return argument;
  }
  std::string result = argument;
  const size_t end = std::min(result.find('='), result.size());
  std::replace(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return result;
}

Status UnknownOption(const VerbSpec& spec, const std::string& argument) {
  std::vector<std::string> known = {"help", "format"};
  for (const VerbOption& option : spec.options) {
    known.emplace_back(option.flag);
  }
  const std::string name = argument.substr(0, argument.find('='));
  const std::string near =
      NearestName(name.substr(std::min(name.find_first_not_of('-'), name.size())), known);
  return InvalidArgument(fmt::format("unknown option {}; {}", name,
                                     near.empty() ? fmt::format("see prism {} --help", spec.name)
                                                  : fmt::format("did you mean --{}?", near)));
}

Status WrongOperands(const VerbSpec& spec, size_t count) {
  return InvalidArgument(fmt::format("expected {}, got {} arguments; see prism {} --help",
                                     spec.operands[0] == '\0' ? "no arguments" : spec.operands,
                                     count, spec.name));
}

std::string OptionLine(const VerbOption& option) {
  const std::string left = fmt::format("  --{} {}", option.flag, option.value_name);
  const std::string right = option.default_text[0] == '\0'
                                ? option.help
                                : fmt::format("{} [{}]", option.help, option.default_text);
  return left.size() < 34 ? fmt::format("{:<34}{}\n", left, right)
                          : fmt::format("{}\n{:<34}{}\n", left, "", right);
}

}  // namespace

Result<VerbArguments> VerbArguments::Parse(const VerbSpec& spec,
                                           const std::vector<std::string>& arguments) {
  VerbArguments parsed;
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras(true);
  app.add_flag("--help,-h", parsed.help_);
  std::vector<VerbOption> options = spec.options;
  options.push_back(kFormatOption);
  std::map<std::string, bool> switches;
  for (const VerbOption& option : options) {
    const std::string flag = fmt::format("--{}", option.flag);
    if (option.value_name[0] == '\0') {
      app.add_flag(flag, switches[option.flag]);
    } else {
      app.add_option(flag, parsed.texts_[option.flag])
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
  std::vector<std::string> reversed;  // as CLI11 wants them
  for (auto argument = arguments.rbegin(); argument != arguments.rend(); ++argument) {
    reversed.push_back(WithDashes(*argument));
  }
  try {
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();  // "--rank: 1 required TEXT missing"
    return InvalidArgument(fmt::format("{} needs a value; see prism {} --help",
                                       what.substr(0, what.find(':')), spec.name));
  } catch (const CLI::ParseError& error) {
    return InvalidArgument(fmt::format("{}; see prism {} --help", error.what(), spec.name));
  }
  for (const std::string& rest : app.remaining()) {
    if (rest.size() > 1 && rest.front() == '-') {
      return UnknownOption(spec, rest);
    }
    parsed.operands_.push_back(rest);
  }
  for (const auto& [flag, on] : switches) {
    if (on) {
      parsed.texts_[flag] = {"on"};
    }
  }
  std::erase_if(parsed.texts_, [](const auto& entry) { return entry.second.empty(); });
  if (parsed.help_) {
    return parsed;
  }
  const size_t count = parsed.operands_.size();
  if (count < spec.min_operands || count > spec.max_operands) {
    return WrongOperands(spec, count);
  }
  std::string format = "text";
  PRISM_RETURN_IF_ERROR(parsed.ReadChoice("format", {"text", "json"}, &format));
  parsed.format_ = format == "json" ? OutputFormat::kJson : OutputFormat::kText;
  return parsed;
}

bool VerbArguments::Has(std::string_view flag) const {
  return texts_.find(flag) != texts_.end();
}

std::vector<std::string> VerbArguments::Texts(std::string_view flag) const {
  const auto found = texts_.find(flag);
  return found == texts_.end() ? std::vector<std::string>() : found->second;
}

Status VerbArguments::ReadInt(std::string_view flag,
                              int64_t lowest,
                              int64_t highest,
                              int64_t* target) const {
  if (!Has(flag)) {
    return OkStatus();
  }
  const std::string text = Texts(flag).back();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lowest ||
      value > highest) {
    return InvalidArgument(
        fmt::format("--{}: '{}' is no whole number from {} to {}", flag, text, lowest, highest));
  }
  *target = value;
  return OkStatus();
}

Status VerbArguments::ReadChoice(std::string_view flag,
                                 const std::vector<std::string>& choices,
                                 std::string* target) const {
  if (!Has(flag)) {
    return OkStatus();
  }
  const std::string text = Texts(flag).back();
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return InvalidArgument(fmt::format("--{}: '{}' is not available; choose {}", flag, text,
                                       fmt::join(choices, ", ")));
  }
  *target = text;
  return OkStatus();
}

std::string LibraryFolder() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "lib").string();
}

std::string VerbHelp(const VerbSpec& spec) {
  std::string text =
      fmt::format("prism {}: {}\n\nUsage: prism {} {}{}[options]\n\nOptions:\n", spec.name,
                  spec.summary, spec.name, spec.operands, spec.operands[0] == '\0' ? "" : " ");
  for (const VerbOption& option : spec.options) {
    text += OptionLine(option);
  }
  text += OptionLine(kFormatOption);
  text += "  --help\n";
  return spec.notes[0] == '\0' ? text : fmt::format("{}\n{}", text, spec.notes);
}

}  // namespace prism::launch
