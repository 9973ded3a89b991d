#include "launch/inputs/config_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "graph/base/file.h"
#include "launch/inputs/options.h"
#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

// The section of a group of options.
std::string SectionOf(const OptionRow& row) {
  std::string section = row.group;
  section.front() = static_cast<char>(section.front() - 'A' + 'a');
  return section;
}

// What a config file may set.
std::vector<Option<Options>> ConfigOptions() {
  std::vector<Option<Options>> options = OptionTable();
  std::erase_if(options, [](const OptionRow& row) { return row.flag == "config"; });
  options.insert(
      std::ranges::upper_bound(options, 0, {},
                               [](const OptionRow& row) { return row.group == kJobGroup ? 0 : 1; }),
      ProgramOption());
  return options;
}

std::string Where(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

// What a command line would say; true and false as they are where those are no values, so that a
// refusal shows what the file says.
Result<std::string> ScalarText(const std::string& where,
                               const OptionRow& row,
                               const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* number = node.as_integer()) {
    return fmt::format("{}", number->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return fmt::format("{}", number->get());
  }
  if (const auto* flag = node.as_boolean()) {
    const bool is_choice = row.value_name.find("on|off") != row.value_name.npos;
    return std::string(flag->get() ? (is_choice ? "on" : "true") : (is_choice ? "off" : "false"));
  }
  return BadFile(fmt::format("{}: expected a string, a number, true or false", where));
}

// Suggests a key that is allowed in that section, or, for "", outside of sections; or a section.
Status UnknownKey(const std::string& where,
                  const std::string& key,
                  const std::string& section,
                  bool is_table) {
  if (key == "config") {
    return BadFile(fmt::format("{}: a config file cannot name another; leave 'config' out", where));
  }
  std::vector<std::string> known;
  for (const OptionRow& row : ConfigOptions()) {
    if (is_table || section.empty() || section == SectionOf(row)) {
      known.push_back(is_table ? SectionOf(row) : row.key());
    }
  }
  const std::string near = NearestName(key, known);
  return BadFile(fmt::format("{}: unknown key '{}'{}", where, key,
                             near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

// Reads what is in that section, or, for "", outside of sections; there, sections are tables.
class ConfigReader {
 public:
  explicit ConfigReader(const std::string& path) : path_(path) {}

  Status ReadTable(const toml::table& table, const std::string& section) {
    for (const auto& [name, node] : table) {
      const std::string key(name.str());
      const bool is_section =
          section.empty() && node.is_table() &&
          std::ranges::any_of(rows_, [&](const OptionRow& row) { return SectionOf(row) == key; });
      PRISM_RETURN_IF_ERROR(is_section ? ReadTable(*node.as_table(), key)
                                       : ReadEntry(section, key, node));
    }
    return OkStatus();
  }

  [[nodiscard]] const GivenOptions& given() const { return given_; }

 private:
  Status ReadEntry(const std::string& section, const std::string& key, const toml::node& node) {
    const std::string where = Where(path_, node);
    const auto row = std::ranges::find(rows_, key, &OptionRow::key);
    if (row == rows_.end()) {
      return UnknownKey(where, key, section, node.is_table());
    }
    if (!section.empty() && SectionOf(*row) != section) {
      return BadFile(fmt::format("{}: '{}' belongs in [{}], not in [{}]", where, key,
                                 SectionOf(*row), section));
    }
    const toml::array* list = node.as_array();
    if (key == ProgramOption().key() && list == nullptr) {
      return BadFile(fmt::format(
          "{}: 'program' must be a list of strings, as in program = [\"python\", \"train.py\"]",
          where));
    }
    if (list != nullptr && !row->is_repeatable) {
      return BadFile(fmt::format("{}: '{}' takes one value", where, key));
    }
    Given given = {{}, fmt::format("{}: {}", where, key), path_};
    const auto add = [&](const toml::node& item) -> Status {
      PRISM_ASSIGN_OR_RETURN(std::string text, ScalarText(Where(path_, item), *row, item));
      given.texts.push_back(std::move(text));
      return OkStatus();
    };
    if (list == nullptr) {
      PRISM_RETURN_IF_ERROR(add(node));
    } else {
      for (const toml::node& item : *list) {
        PRISM_RETURN_IF_ERROR(add(item));
      }
    }
    if (!given.texts.empty()) {
      given_[key] = std::move(given);
    }
    return OkStatus();
  }

  const std::string& path_;
  const std::vector<Option<Options>> rows_ = ConfigOptions();
  GivenOptions given_;
};

std::string Quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      result += fmt::format("\\u{:04X}", static_cast<int>(c));
      continue;
    }
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + "\"";
}

// A file by a path that is valid wherever the configuration is read; the name of a preset, which
// counts before a file of that name, unchanged.
std::string FileText(const std::string& name_or_file) {
  std::error_code ignored;
  const bool is_preset = std::ranges::any_of(
      EmbeddedPresets(), [&](const EmbeddedPreset& preset) { return preset.name == name_or_file; });
  if (is_preset || !std::filesystem::is_regular_file(name_or_file, ignored)) {
    return Quoted(name_or_file);
  }
  return Quoted(std::filesystem::absolute(name_or_file, ignored).lexically_normal().string());
}

// Options that concern one call of the program, and those at the end of their section.
constexpr std::string_view kOfOneCall[] = {"interactive", "out",   "force",     "format",
                                           "config",      "quiet", "log-level", "print-config",
                                           "dry-run",     "color", "resume"};
constexpr std::string_view kAtEnd[] = {"routing", "perturb", "log-ranks", "perfetto", "strict"};

// Sizes that follow from the others where they are not given. As values they would be given
// themselves, and contradict other numbers of GPUs.
bool IsDerived(const std::string& name, const Options& options, const graph::JobSpec& job) {
  const bool follows =
      name == "dp" || name == "global_batch_size" || (name == "ep" && job.model.moe.experts > 0);
  return follows && !job.user_program && !options.given.contains(name);
}

// The options with the job's values. Of a user's program only what was given: the rest is found
// when it runs, and may differ from what was asked for.
Options Resolved(const Options& options, const graph::JobSpec& job) {
  Options resolved = options;
  const graph::ParallelSizes& sizes = job.parallel;
  resolved.target_gpus = static_cast<int32_t>(sizes.world_size());
  if (job.user_program) {
    return resolved;
  }
  resolved.tp = sizes.tp;
  resolved.pp = sizes.pp;
  resolved.dp = sizes.dp;
  resolved.cp = sizes.cp;
  resolved.ep = sizes.ep;
  resolved.vpp = sizes.vpp;
  // As the job has it where tp is above 1; with tp 1 it has no effect.
  resolved.sequence_parallel = options.sequence_parallel.value_or(true);
  resolved.micro_batch_size = job.micro_batch_size;
  resolved.global_batch_size = job.global_batch_size;
  resolved.seq_len = job.seq_len;
  resolved.recompute = job.recompute;
  resolved.zero = job.zero_stage;
  return resolved;
}

// Whether a config leaves the option out: a graph includes its job and its cluster.
bool IsIdle(const OptionRow& row, const Options& options, const graph::JobSpec& job) {
  const std::string& flag = row.flag;
  return std::ranges::find(kOfOneCall, flag) != std::end(kOfOneCall) ||
         (!options.graph.empty() && row.group == kJobGroup && flag != "iterations" &&
          flag != "seed" && flag != "program" && flag != "routing") ||
         (!options.graph.empty() && flag == "cluster" && !options.given.contains(flag)) ||
         (flag == "model" && job.user_program) ||
         ((flag == "program" || flag == "routing") && options.program.empty()) ||
         (flag == "record-device" && options.record_device == Device::kVirtual) ||
         (flag == "device-scale" && options.device == Device::kVirtual &&
          options.record_device == Device::kVirtual);
}

std::string ConfigLine(const Option<Options>& option, const Options& options) {
  std::vector<std::string> values = option.write(options);
  for (std::string& value : values) {
    value = option.names_file() ? FileText(value) : option.is_bare ? value : Quoted(value);
  }
  const std::string joined = fmt::format("{}", fmt::join(values, ", "));
  return option.is_repeatable ? fmt::format("{} = [{}]", option.key(), joined)
         : values.empty()     ? ""
                              : fmt::format("{} = {}", option.key(), joined);
}

}  // namespace

Result<GivenOptions> ReadConfigFile(const std::string& path, InputHashes* read) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  NoteInput(path, text, read);
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return BadFile(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
  if (table.empty()) {
    return BadFile(
        fmt::format("{}: contains no option; see prism-emulate --help for what it may hold", path));
  }
  ConfigReader reader(path);
  PRISM_RETURN_IF_ERROR(reader.ReadTable(table, ""));
  return reader.given();
}

std::string ConfigText(const Options& options, const graph::JobSpec& job) {
  const Options resolved = Resolved(options, job);
  std::string text = "# prism-emulate --config FILE gives this run again.\n";
  std::string last;
  std::string group;
  for (const Option<Options>& option : ConfigOptions()) {
    if (option.group != group) {
      text += fmt::format("{}{}[{}]\n", std::exchange(last, ""), group.empty() ? "" : "\n",
                          SectionOf(option));
      group = option.group;
    }
    std::string line = ConfigLine(option, resolved);
    if (line.empty() || IsIdle(option, options, job)) {
      continue;
    }
    if (IsDerived(option.key(), options, job)) {
      line = fmt::format("# {}, from the other sizes", line);
    }
    (std::ranges::find(kAtEnd, option.flag) == std::end(kAtEnd) ? text : last) += line + "\n";
  }
  return text + last;
}

}  // namespace prism::launch
