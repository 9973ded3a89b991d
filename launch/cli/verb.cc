#include "launch/cli/verb.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/parse_number.h"
#include "graph/base/units.h"
#include "graph/validate/valid_graph.h"
#include "launch/inputs/command_line.h"

namespace prism::launch {
namespace {

VerbOption FormatOption() {
  return {"format", JoinedNames(kOutputFormatNames), "text", "format of the output"};
}

Status WrongOperands(const VerbSpec& spec, size_t count) {
  return InvalidArgument(fmt::format("expected {}, got {}; see prism {} --help",
                                     spec.operands[0] == '\0' ? "no arguments" : spec.operands,
                                     FormatCounted(static_cast<int64_t>(count), "argument"),
                                     spec.name));
}

// Judged by the name of its value in --help.
bool NamesFile(const VerbOption& option) {
  const std::string& name = option.value_name;
  return name.find("FILE") != name.npos || name.find("GRAPH") != name.npos;
}

std::string OptionLine(const VerbOption& option) {
  return OptionHelp(fmt::format("{} {}", option.flag, option.value_name), option.help,
                    option.default_text);
}

// Works for files that do not exist yet, too.
bool IsSameFile(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored) ||
         std::filesystem::weakly_canonical(a, ignored) ==
             std::filesystem::weakly_canonical(b, ignored);
}

// Whether the path names a file that prism-emulate has written beside the graph that is read.
bool IsOfRun(const std::filesystem::path& path, const std::filesystem::path& graph) {
  constexpr const char* kFiles[] = {"summary.json", "ranks.csv", "communicators.csv",
                                    "config.toml",  "run.json",  "FAILED"};
  std::error_code ignored;
  return std::ranges::any_of(kFiles, [&](const char* name) {
    return std::filesystem::equivalent(path, graph.parent_path() / name, ignored);
  });
}

}  // namespace

Result<VerbArguments> VerbArguments::Parse(const VerbSpec& spec,
                                           const std::vector<std::string>& arguments) {
  std::vector<FlagSpec> flags = {{"help", true}, {FormatOption().flag}};
  for (const VerbOption& option : spec.options) {
    flags.push_back({option.flag, option.value_name.empty(), option.repeatable});
  }
  VerbArguments parsed;
  parsed.words_ = arguments;
  for (const VerbOption& option : spec.options) {
    if (NamesFile(option)) {
      parsed.file_flags_.insert(option.flag);
    }
  }
  PRISM_ASSIGN_OR_RETURN(
      SplitCommandLine split,
      SplitArguments(flags, arguments, fmt::format("prism {} --help", spec.name)));
  for (const FlagSpec& flag : flags) {
    if (flag.is_switch && !split.IsOn(flag.name)) {
      split.texts.erase(flag.name);
    }
  }
  parsed.texts_ = std::move(split.texts);
  parsed.operands_ = std::move(split.operands);
  if (parsed.help()) {
    return parsed;
  }
  const size_t count = parsed.operands_.size();
  if (count < spec.min_operands || count > spec.max_operands) {
    return WrongOperands(spec, count);
  }
  PRISM_RETURN_IF_ERROR(parsed.ReadEnum("format", kOutputFormatNames, &parsed.format_));
  return parsed;
}

bool VerbArguments::Has(std::string_view flag) const {
  return texts_.find(flag) != texts_.end();
}

std::vector<std::string> VerbArguments::Texts(std::string_view flag) const {
  const auto found = texts_.find(flag);
  return found == texts_.end() ? std::vector<std::string>() : found->second;
}

std::string VerbArguments::Text(std::string_view flag, const std::string& fallback) const {
  const auto found = texts_.find(flag);
  return found == texts_.end() ? fallback : found->second.back();
}

Status VerbArguments::ReadInt(std::string_view flag,
                              int64_t lowest,
                              int64_t highest,
                              int64_t* target) const {
  if (!Has(flag)) {
    return OkStatus();
  }
  const std::string text = Text(flag);
  int64_t value = 0;
  if (!ParseNumber(text, &value) || value < lowest || value > highest) {
    return InvalidArgument(
        fmt::format("--{}: '{}' is not a whole number from {} to {}", flag, text, lowest, highest));
  }
  *target = value;
  return OkStatus();
}

Status VerbArguments::ReadNumber(std::string_view flag, double* target) const {
  if (!Has(flag)) {
    return OkStatus();
  }
  const std::string text = Text(flag);
  double value = 0;
  if (!ParseNumber(text, &value) || !std::isfinite(value) || value <= 0) {
    return InvalidArgument(fmt::format("--{}: '{}' is not a number above 0", flag, text));
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
  const std::string text = Text(flag);
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return InvalidArgument(fmt::format("--{}: '{}' is unknown; choose one of {}", flag, text,
                                       fmt::join(choices, ", ")));
  }
  *target = text;
  return OkStatus();
}

Status VerbArguments::CheckOutput(std::string_view flag,
                                  const std::vector<std::string>& more) const {
  if (!Has(flag)) {
    return OkStatus();
  }
  const std::filesystem::path path = Text(flag);
  const std::string name = fmt::format("{}{}", flag.size() == 1 ? "-" : "--", flag);
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored)) {
    return InvalidArgument(fmt::format("{}: '{}' is not a file name", name, path.string()));
  }
  std::vector<std::string> read = operands_;  // a run's folder is read by its graph
  read.insert(read.end(), more.begin(), more.end());
  bool is_taken = std::ranges::any_of(read, [&](const std::string& other) {
    return std::filesystem::equivalent(graph::GraphFileOf(other), path, ignored);
  });
  for (const auto& [other, values] : texts_) {
    is_taken = is_taken || (other != flag && file_flags_.contains(other) &&
                            std::ranges::any_of(values, [&](const std::string& value) {
                              return IsSameFile(value, path);
                            }));
  }
  if (std::ranges::any_of(operands_, [&](const std::string& run) {
        return IsOfRun(path, graph::GraphFileOf(run));
      })) {
    return InvalidArgument(
        fmt::format("{}: '{}' belongs to the run; name another file", name, path.string()));
  }
  if (is_taken) {
    return InvalidArgument(
        fmt::format("{}: '{}' is also read, or written by another option; name another file", name,
                    path.string()));
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (access(folder.c_str(), W_OK) != 0) {
    return EnvironmentLacks(
        fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  }
  return OkStatus();
}

std::string VerbHelp(const VerbSpec& spec) {
  std::string text =
      fmt::format("prism {}: {}\n\nUsage: prism {} {}{}[options]\n\nOptions:\n", spec.name,
                  spec.summary, spec.name, spec.operands, spec.operands[0] == '\0' ? "" : " ");
  for (const VerbOption& option : spec.options) {
    text += OptionLine(option);
  }
  text += OptionLine(FormatOption());
  text += "  --help\n";
  return spec.notes[0] == '\0' ? text : fmt::format("{}\n{}", text, spec.notes);
}

}  // namespace prism::launch
