#include "launch/inputs/config_file.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "launch/inputs/options.h"
#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

// By OptionGroup.
const std::vector<std::string>& Sections() {
  static const std::vector<std::string> sections = {"job", "cluster", "ranks", "output"};
  return sections;
}

const std::string& SectionOf(const OptionSpec& spec) {
  return Sections()[static_cast<size_t>(spec.group)];
}

// What follows "--" on a command line is a list of strings here.
constexpr OptionSpec kProgram = {"program", OptionGroup::kJob, "", "", "", /*repeatable=*/true};

const OptionSpec* FindKey(const std::string& key) {
  if (key == kProgram.flag) {
    return &kProgram;
  }
  for (const OptionSpec& spec : OptionTable()) {
    if (ConfigKey(spec) == key && key != "config") {
      return &spec;
    }
  }
  return nullptr;
}

std::string Where(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

// What a command line would say; true and false as they are where those are no values, so that a
// refusal shows what the file says.
Result<std::string> ScalarText(const std::string& where,
                               const OptionSpec& spec,
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
    const bool is_choice = spec.value_name.find("on|off") != spec.value_name.npos;
    return std::string(flag->get() ? (is_choice ? "on" : "true") : (is_choice ? "off" : "false"));
  }
  return BadFile(fmt::format("{}: expected a string, a number, true or false", where));
}

// Suggests a key that is allowed there: in that section, or, for "", outside of sections.
Status UnknownKey(const std::string& where,
                  const std::string& key,
                  const std::string& section,
                  bool is_table) {
  if (key == "config") {
    return BadFile(fmt::format("{}: a config file cannot name another; leave 'config' out", where));
  }
  std::vector<std::string> known = {kProgram.flag};
  for (const OptionSpec& spec : OptionTable()) {
    known.push_back(ConfigKey(spec));
  }
  std::erase_if(known, [&](const std::string& name) {
    const OptionSpec* spec = FindKey(name);
    return spec == nullptr || (!section.empty() && SectionOf(*spec) != section);
  });
  const std::string near = NearestName(key, is_table ? Sections() : known);
  return BadFile(fmt::format("{}: unknown key '{}'{}", where, key,
                             near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

// Of that section, or, for "", outside of sections.
Status ReadEntry(const std::string& path,
                 const std::string& section,
                 const std::string& key,
                 const toml::node& node,
                 ConfigValues* values) {
  const OptionSpec* spec = FindKey(key);
  if (spec == nullptr) {
    return UnknownKey(Where(path, node), key, section, node.is_table());
  }
  ConfigValue value = {.texts = {}, .line = node.source().begin.line};
  if (spec == &kProgram && !node.is_array()) {
    return BadFile(fmt::format(
        "{}: 'program' must be a list of strings, as in program = [\"python\", \"train.py\"]",
        Where(path, node)));
  }
  if (const toml::array* list = node.as_array()) {
    if (!spec->repeatable) {
      return BadFile(fmt::format("{}: '{}' takes one value", Where(path, node), key));
    }
    for (const toml::node& item : *list) {
      PRISM_ASSIGN_OR_RETURN(std::string text, ScalarText(Where(path, item), *spec, item));
      value.texts.push_back(std::move(text));
    }
  } else {
    PRISM_ASSIGN_OR_RETURN(std::string text, ScalarText(Where(path, node), *spec, node));
    value.texts.push_back(std::move(text));
  }
  if (!value.texts.empty()) {
    (*values)[key] = std::move(value);
  }
  return OkStatus();
}

Status ReadTable(const std::string& path, const toml::table& table, ConfigValues* values) {
  for (const auto& [name, node] : table) {
    const std::string key(name.str());
    const bool is_section =
        node.is_table() && std::find(Sections().begin(), Sections().end(), key) != Sections().end();
    if (!is_section) {
      PRISM_RETURN_IF_ERROR(ReadEntry(path, "", key, node, values));
      continue;
    }
    for (const auto& [inner_name, inner] : *node.as_table()) {
      const std::string inner_key(inner_name.str());
      const OptionSpec* spec = FindKey(inner_key);
      if (spec != nullptr && SectionOf(*spec) != key) {
        return BadFile(fmt::format("{}: '{}' belongs in [{}], not in [{}]", Where(path, inner),
                                   inner_key, SectionOf(*spec), key));
      }
      PRISM_RETURN_IF_ERROR(ReadEntry(path, key, inner_key, inner, values));
    }
  }
  return OkStatus();
}

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

// A number or text that was given on a command line or in the environment.
std::string GivenText(const std::string& given) {
  int64_t number = 0;
  return ParseNumber(given, &number) ? std::to_string(number) : Quoted(given);
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

// Sizes that follow from the others where they are not given. As values they would be given
// themselves, and contradict other numbers of GPUs.
bool IsDerived(const std::string& name, const graph::JobSpec& job) {
  return name == "dp" || name == "global_batch_size" || (name == "ep" && job.model.moe.experts > 0);
}

// For a user's program only what was given, as given: the rest is found when it runs, and may
// differ from what was asked for.
std::string LayoutText(const Options& options, const graph::JobSpec& job) {
  const graph::ParallelSizes& sizes = job.parallel;
  const std::pair<const char*, std::string> entries[] = {
      {"tp", std::to_string(sizes.tp)},
      {"pp", std::to_string(sizes.pp)},
      {"dp", std::to_string(sizes.dp)},
      {"cp", std::to_string(sizes.cp)},
      {"ep", std::to_string(sizes.ep)},
      {"vpp", std::to_string(sizes.vpp)},
      // As the job has it where tp is above 1; with tp 1 it has no effect.
      {"sequence_parallel", options.sequence_parallel.value_or(true) ? "\"on\"" : "\"off\""},
      {"micro_batch_size", std::to_string(job.micro_batch_size)},
      {"global_batch_size", std::to_string(job.global_batch_size)},
      {"seq_len", std::to_string(job.seq_len)},
      {"recompute", fmt::format("\"{}\"", graph::RecomputeName(job.recompute))},
      {"zero", std::to_string(job.zero_stage)}};
  std::string text;
  for (const auto& [name, value] : entries) {
    const auto given = options.given.find(name);
    const bool is_given = given != options.given.end();
    if (job.user_program && is_given) {
      text += fmt::format("{} = {}\n", name, GivenText(given->second.back()));
    } else if (!job.user_program && !is_given && IsDerived(name, job)) {
      text += fmt::format("# {} = {}, from the other sizes\n", name, value);
    } else if (!job.user_program) {
      text += fmt::format("{} = {}\n", name, value);
    }
  }
  return text;
}

std::string JobText(const Options& options, const graph::JobSpec& job) {
  std::string text = "[job]\n";
  if (options.graph.empty()) {
    text += fmt::format("target_gpus = {}\n", job.parallel.world_size());
    if (!job.user_program) {
      text += fmt::format("model = {}\n", FileText(options.model));
    }
    text += LayoutText(options, job);
  }
  text += fmt::format("iterations = {}\nseed = {}\n", options.iterations, options.seed);
  if (options.program.empty()) {
    return text;
  }
  std::vector<std::string> words;
  for (const std::string& word : options.program) {
    words.push_back(Quoted(word));
  }
  return text + fmt::format("program = [{}]\nrouting = {}\n", fmt::join(words, ", "),
                            Quoted(options.routing));
}

std::string ClusterText(const Options& options) {
  std::string text = "\n[cluster]\n";
  // A graph includes its cluster.
  if (options.graph.empty() || options.given.count("cluster") != 0) {
    text += fmt::format("cluster = {}\n", FileText(options.cluster));
  }
  std::vector<std::string> perturbations;
  for (const PerturbationText& perturbation : options.perturb) {
    perturbations.push_back(Quoted(perturbation.text));
  }
  text += fmt::format("network = \"{}\"\ndevice = \"{}\"\n", NameOf(kNetworkNames, options.network),
                      NameOf(kDeviceNames, options.device));
  if (options.device != Device::kVirtual) {
    text += fmt::format("device_scale = {}\n", options.device_scale);
  }
  std::string host_time = "fixed";
  if (options.host_factor > 0) {
    host_time = fmt::format("measured:{}", options.host_factor);
  } else if (!options.host_framework.empty()) {
    host_time += ":" + options.host_framework;
  }
  text += fmt::format("host_time = \"{}\"\n", host_time);
  return text + fmt::format("perturb = [{}]\n", fmt::join(perturbations, ", "));
}

std::string RanksText(const Options& options) {
  std::string text = fmt::format(
      "\n[ranks]\nsandbox_ranks = {}\non_mismatch = \"{}\"\nmax_roles = {}\nstall_timeout = {}\n",
      Quoted(options.sandbox_ranks), NameOf(kOnMismatchNames, options.on_mismatch),
      options.max_roles, options.stall_timeout_s);
  if (!options.log_ranks.empty()) {
    text += fmt::format("log_ranks = {}\n", Quoted(options.log_ranks));
  }
  return text;
}

std::string OutputText(const Options& options) {
  std::string text = "\n[output]\n";
  if (!options.graph.empty()) {
    text += fmt::format("graph = {}\n", FileText(options.graph));
  }
  if (!options.trace_ranks.empty()) {
    text += fmt::format("trace_ranks = {}\n", Quoted(options.trace_ranks));
  }
  if (!options.memory_snapshot.empty()) {
    text += fmt::format("memory_snapshot = {}\n", Quoted(options.memory_snapshot));
  }
  if (options.max_error_pct) {
    text += fmt::format("max_error = {}\n", *options.max_error_pct);
  }
  return text + fmt::format("perfetto = {}\nstrict = {}\n", options.perfetto, options.strict);
}

}  // namespace

Result<ConfigValues> ReadConfigFile(const std::string& path, InputHashes* read) {
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
  ConfigValues values;
  PRISM_RETURN_IF_ERROR(ReadTable(path, table, &values));
  return values;
}

std::string ConfigText(const Options& options, const graph::JobSpec& job) {
  return "# prism-emulate --config FILE gives this run again.\n" + JobText(options, job) +
         ClusterText(options) + RanksText(options) + OutputText(options);
}

}  // namespace prism::launch
