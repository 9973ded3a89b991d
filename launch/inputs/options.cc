#include "launch/inputs/options.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "graph/job/names.h"
#include "graph/validate/limits.h"
#include "launch/inputs/command_line.h"
#include "launch/inputs/config_file.h"
#include "launch/inputs/environment.h"

namespace prism::launch {
namespace {

// Where a raw value came from, for messages: "--tp", "PRISM_TP", "job.toml:3: tp".
struct RawValue {
  std::vector<std::string> texts;
  std::string origin;
  std::string file;  // "" where none gave it
};

using RawValues = std::map<std::string, RawValue>;  // by config key

// The command line before its values are typed.
struct Parsed {
  std::map<std::string, std::vector<std::string>> texts;  // by config key
  std::vector<std::string> program;                       // what follows "--"
  bool help = false;
  bool version = false;
};

Result<Parsed> ParseArguments(const std::vector<std::string>& arguments) {
  Parsed parsed;
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes != arguments.end()) {
    parsed.program.assign(dashes + 1, arguments.end());
    if (parsed.program.empty()) {
      return InvalidArgument("no program after --; name one, or leave -- out");
    }
  }
  std::vector<FlagSpec> flags = {{"help", true}, {"version", true}};
  for (const OptionSpec& spec : OptionTable()) {
    flags.push_back({spec.flag, spec.value_name.empty(), spec.repeatable});
  }
  PRISM_ASSIGN_OR_RETURN(const SplitCommandLine split,
                         SplitArguments(flags, {arguments.begin(), dashes}, "--help",
                                        /*takes_operands=*/false));
  if (!split.operands.empty()) {
    const std::string& first = split.operands.front();
    int64_t number = 0;
    const bool is_program = parsed.program.empty() && !ParseNumber(first, &number);
    return InvalidArgument(fmt::format(
        "unexpected argument '{}'; {}", first,
        is_program ? fmt::format("a program goes after --: -- {}", fmt::join(split.operands, " "))
                   : "see --help"));
  }
  parsed.help = split.IsOn("help");
  parsed.version = split.IsOn("version");
  for (const OptionSpec& spec : OptionTable()) {
    if (const auto found = split.texts.find(spec.flag); found != split.texts.end()) {
      parsed.texts[ConfigKey(spec)] = found->second;
    }
  }
  return parsed;
}

// Adds the values of a config file, with lower priority than those already there.
Status AddConfigFile(const std::string& path, RawValues* values, InputHashes* read) {
  PRISM_ASSIGN_OR_RETURN(const ConfigValues from_file, ReadConfigFile(path, read));
  for (const auto& [key, value] : from_file) {
    values->try_emplace(
        key, RawValue{value.texts, fmt::format("{}:{}: {}", path, value.line, key), path});
  }
  return OkStatus();
}

// A variable has several values of a repeatable option with spaces between them.
std::vector<std::string> VariableTexts(const std::string& text, bool repeatable) {
  if (!repeatable) {
    return {text};
  }
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// Combines the three sources, highest priority first.
Result<RawValues> CollectValues(const Parsed& parsed, InputHashes* read) {
  RawValues values;
  for (const OptionSpec& spec : OptionTable()) {
    const std::string key = ConfigKey(spec);
    const auto found = parsed.texts.find(key);
    const std::string environment = EnvironmentName(spec);
    if (found != parsed.texts.end()) {
      values[key] = {found->second, fmt::format("--{}", spec.flag), ""};
    } else if (const char* text = std::getenv(environment.c_str()); text != nullptr) {
      const std::vector<std::string> texts = VariableTexts(text, spec.repeatable);
      if (texts.empty() || texts.front().empty()) {
        return InvalidArgument(
            fmt::format("{} is empty; give it a value or unset it", environment));
      }
      values[key] = {texts, environment, ""};
    }
  }
  if (!parsed.program.empty()) {
    values["program"] = {parsed.program, "-- PROGRAM", ""};
  }
  if (const auto config = values.find("config"); config != values.end()) {
    PRISM_RETURN_IF_ERROR(AddConfigFile(config->second.texts.back(), &values, read));
  }
  return values;
}

constexpr double kMaxFactor = 1000;  // between two GPUs or hosts: far above any pair
constexpr double kMaxPercent = 1000;
constexpr double kMaxExponent = 10;  // of Zipf's law; at this one all choose the same

// Turns raw texts into typed values; keeps the first failure, so that the reading code below is a
// plain list.
class TypedReader {
 public:
  explicit TypedReader(const RawValues& values) : values_(values) {}

  [[nodiscard]] const Status& status() const { return status_; }

  template <typename Int>
  void ReadInt(const std::string& key, int64_t lowest, int64_t highest, Int* target) {
    const RawValue* raw = Find(key);
    if (raw == nullptr) {
      return;
    }
    const std::string& text = raw->texts.back();
    int64_t value = 0;
    if (!ParseNumber(text, &value) || value < lowest || value > highest) {
      Fail(*raw, fmt::format("'{}' is not a whole number from {} to {}", text, lowest, highest));
      return;
    }
    *target = static_cast<typename ValueOf<Int>::type>(value);
  }

  template <typename Target, typename Enum, size_t N>
  void ReadEnum(const std::string& key,
                const std::array<EnumName<Enum>, N>& names,
                Target* target) {
    if (const auto index = ReadChoice(key, AllNames(names))) {
      *target = names[*index].value;
    }
  }

  // The index of the text in `choices`, if the option was given.
  std::optional<size_t> ReadChoice(const std::string& key,
                                   const std::vector<std::string>& choices) {
    const RawValue* raw = Find(key);
    if (raw == nullptr) {
      return std::nullopt;
    }
    const std::string& text = raw->texts.back();
    const auto found = std::find(choices.begin(), choices.end(), text);
    if (found == choices.end()) {
      Fail(*raw, fmt::format("'{}' is unknown; choose one of {}", text, fmt::join(choices, ", ")));
      return std::nullopt;
    }
    return static_cast<size_t>(found - choices.begin());
  }

  void ReadSwitch(const std::string& key, bool* target) {
    if (const auto index = ReadChoice(key, {kSwitchWords.begin(), kSwitchWords.end()})) {
      *target = *index % 2 == 1;
    }
  }

  void ReadText(const std::string& key, std::string* target) {
    if (const RawValue* raw = Find(key); raw != nullptr) {
      *target = raw->texts.back();
      if (target->empty()) {
        Fail(*raw, "is empty");
      }
    }
  }

  void ReadHostTime(const std::string& key, Options* options) {
    const RawValue* raw = Find(key);
    if (raw == nullptr || raw->texts.back() == "fixed") {
      return;
    }
    constexpr std::string_view kFixed = "fixed:";
    constexpr std::string_view kMeasured = "measured:";
    const std::string& text = raw->texts.back();
    if (text.starts_with(kFixed) && text.size() > kFixed.size()) {
      options->host_framework = text.substr(kFixed.size());
      return;
    }
    const bool is_measured =
        text.starts_with(kMeasured) &&
        ParseNumber(std::string_view(text).substr(kMeasured.size()), &options->host_factor);
    if (!is_measured || !(options->host_factor > 0 && options->host_factor <= kMaxFactor)) {
      Fail(*raw, fmt::format("'{}' is unknown; use fixed, fixed:FRAMEWORK or measured:FACTOR, with "
                             "FACTOR above 0 and at most {}",
                             text, kMaxFactor));
    }
  }

  // A number above 0.
  void ReadFactor(const std::string& key, double* target) {
    const RawValue* raw = Find(key);
    if (raw == nullptr) {
      return;
    }
    const std::string& text = raw->texts.back();
    double value = 0;
    if (!ParseNumber(text, &value) || !(value > 0 && value <= kMaxFactor)) {
      Fail(*raw, fmt::format("'{}' is not a number above 0 and at most {}", text, kMaxFactor));
      return;
    }
    *target = value;
  }

  // A share in percent, with or without the sign.
  void ReadPercent(const std::string& key, std::optional<double>* target) {
    const RawValue* raw = Find(key);
    if (raw == nullptr) {
      return;
    }
    std::string_view text = raw->texts.back();
    if (text.ends_with('%')) {
      text.remove_suffix(1);
    }
    double value = 0;
    if (!ParseNumber(text, &value) || !(value >= 0 && value <= kMaxPercent)) {
      Fail(*raw,
           fmt::format("'{}' is not a percentage from 0 to {}", raw->texts.back(), kMaxPercent));
      return;
    }
    *target = value;
  }

  void ReadRouting(const std::string& key, std::string* target) {
    const RawValue* raw = Find(key);
    if (raw == nullptr) {
      return;
    }
    const std::string_view text = raw->texts.back();
    constexpr std::string_view kZipf = "zipf:";
    double exponent = 0;
    const bool is_zipf =
        text.starts_with(kZipf) && ParseNumber(text.substr(kZipf.size()), &exponent);
    if (text != "uniform" && !(is_zipf && exponent > 0 && exponent <= kMaxExponent)) {
      Fail(*raw,
           fmt::format("'{}' is unknown; use uniform or zipf:S, with S above 0 and at most {}",
                       text, kMaxExponent));
      return;
    }
    *target = text;
  }

  void ReadTexts(const std::string& key, std::vector<std::string>* target) {
    if (const RawValue* raw = Find(key); raw != nullptr) {
      *target = raw->texts;
    }
  }

  void ReadPerturbations(const std::string& key, std::vector<PerturbationText>* target) {
    if (const RawValue* raw = Find(key); raw != nullptr) {
      for (const std::string& text : raw->texts) {
        target->push_back({text, raw->file.empty() ? "" : raw->origin});
      }
    }
  }

 private:
  template <typename T>
  struct ValueOf {
    using type = T;
  };
  template <typename T>
  struct ValueOf<std::optional<T>> {
    using type = T;
  };

  const RawValue* Find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

  void Fail(const RawValue& raw, const std::string& what) {
    if (status_.ok()) {
      const std::string message = fmt::format("{}: {}", raw.origin, what);
      status_ = raw.file.empty() ? InvalidArgument(message) : BadFile(message);
    }
  }

  const RawValues& values_;
  Status status_;
};

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

constexpr int64_t kMaxBatch = 1LL << 30;  // sequences, tokens: far above any job

void ReadJobOptions(TypedReader& reader, Options* options) {
  reader.ReadInt("target_gpus", 1, graph::kMaxRanks, &options->target_gpus);
  reader.ReadText("model", &options->model);
  reader.ReadInt("tp", 1, graph::kMaxRanks, &options->tp);
  reader.ReadInt("pp", 1, graph::kMaxRanks, &options->pp);
  reader.ReadInt("dp", 1, graph::kMaxRanks, &options->dp);
  reader.ReadInt("cp", 1, graph::kMaxRanks, &options->cp);
  reader.ReadInt("ep", 1, graph::kMaxRanks, &options->ep);
  reader.ReadInt("vpp", 1, 1024, &options->vpp);
  if (const auto on = reader.ReadChoice("sequence_parallel", {"off", "on"})) {
    options->sequence_parallel = *on == 1;
  }
  reader.ReadInt("micro_batch_size", 1, kMaxBatch, &options->micro_batch_size);
  reader.ReadInt("global_batch_size", 1, kMaxBatch, &options->global_batch_size);
  reader.ReadInt("seq_len", 1, kMaxBatch, &options->seq_len);
  reader.ReadEnum("recompute", graph::kRecomputeNames, &options->recompute);
  if (const auto stage = reader.ReadChoice("zero", {"0", "1", "2", "3"})) {
    options->zero = static_cast<int32_t>(*stage);
  }
  reader.ReadRouting("routing", &options->routing);
  reader.ReadInt("iterations", 1, 1000, &options->iterations);
  reader.ReadInt("seed", 0, INT64_MAX, &options->seed);
  reader.ReadTexts("program", &options->program);
}

void ReadOtherOptions(TypedReader& reader, Options* options) {
  reader.ReadText("cluster", &options->cluster);
  reader.ReadEnum("network", kNetworkNames, &options->network);
  reader.ReadPerturbations("perturb", &options->perturb);
  reader.ReadEnum("device", kDeviceNames, &options->device);
  reader.ReadFactor("device_scale", &options->device_scale);
  reader.ReadHostTime("host_time", options);
  reader.ReadText("sandbox_ranks", &options->sandbox_ranks);
  reader.ReadEnum("on_mismatch", kOnMismatchNames, &options->on_mismatch);
  reader.ReadText("log_ranks", &options->log_ranks);
  reader.ReadInt("max_roles", 1, 1 << 20, &options->max_roles);
  reader.ReadInt("stall_timeout", 1, 1 << 20, &options->stall_timeout_s);
  reader.ReadText("out", &options->out);
  reader.ReadSwitch("force", &options->force);
  reader.ReadText("graph", &options->graph);
  reader.ReadEnum("format", kOutputFormatNames, &options->format);
  reader.ReadSwitch("perfetto", &options->perfetto);
  reader.ReadText("trace_ranks", &options->trace_ranks);
  reader.ReadText("memory_snapshot", &options->memory_snapshot);
  reader.ReadSwitch("print_config", &options->print_config);
  reader.ReadSwitch("dry_run", &options->dry_run);
  reader.ReadEnum("log_level", kLogLevelNames, &options->log_level);
  reader.ReadSwitch("interactive", &options->interactive);
  reader.ReadSwitch("quiet", &options->quiet);
  if (reader.ReadChoice("color", {"auto", "on", "off"})) {
    reader.ReadText("color", &options->color);
  }
  reader.ReadSwitch("strict", &options->strict);
  reader.ReadPercent("max_error", &options->max_error_pct);
}

Result<Options> TypedOptions(const RawValues& values) {
  Options options;
  TypedReader reader(values);
  ReadJobOptions(reader, &options);
  ReadOtherOptions(reader, &options);
  PRISM_RETURN_IF_ERROR(reader.status());
  for (const auto& [key, raw] : values) {
    options.given[key] = raw.texts;
    if (!raw.file.empty()) {
      options.files[key] = raw.file;
    }
    if (raw.origin.starts_with(kVariableBeginning)) {
      options.variables[key] = raw.origin;
    }
  }
  return options;
}

// A refusal that does not name its option, for NamingOrigins, names the variable that gave it.
Status AtVariable(const Options& options, std::string_view key, const Status& status) {
  const auto variable = options.variables.find(std::string(key));
  std::string flag(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return status.ok() || variable == options.variables.end() || Mentions(status.message(), flag)
             ? status
             : Status(status.code(), fmt::format("{}: {}", variable->second, status.message()));
}

}  // namespace

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  PRISM_ASSIGN_OR_RETURN(const Parsed parsed, ParseArguments(arguments));
  CommandLine line;
  line.show_help = parsed.help;
  line.show_version = parsed.version;
  if (line.show_help || line.show_version) {
    return line;
  }
  PRISM_ASSIGN_OR_RETURN(line.unknown_variables, UnknownVariables());
  InputHashes read;
  PRISM_ASSIGN_OR_RETURN(const RawValues values, CollectValues(parsed, &read));
  PRISM_ASSIGN_OR_RETURN(line.options, TypedOptions(values));
  line.options.inputs = std::move(read);
  return line;
}

Status AtOrigin(const Options& options,
                const std::vector<std::string_view>& keys,
                const Status& status) {
  std::vector<std::string_view> named;
  std::string file;
  for (const std::string_view key : keys) {
    if (!options.given.contains(std::string(key))) {
      continue;
    }
    const auto found = options.files.find(std::string(key));
    if (found == options.files.end()) {
      return keys.size() == 1 ? AtVariable(options, key, status) : status;
    }
    file = found->second;
    named.push_back(key);
  }
  return named.empty() || status.code() != StatusCode::kInvalidArgument
             ? status
             : BadFile(fmt::format("{}: {}: {}", file, fmt::join(named, ", "), status.message()));
}

Status NamingOrigins(const Options& options, const Status& status) {
  const std::string& refusal = status.message();
  std::string message = refusal;
  for (const OptionSpec& spec : OptionTable()) {
    const std::string key = ConfigKey(spec);
    const auto given = options.given.find(key);
    if (given == options.given.end() ||
        (!Mentions(refusal, spec.flag) &&
         !MentionsValue(refusal, spec.flag, given->second.back()))) {
      continue;
    }
    if (const auto variable = options.variables.find(key); variable != options.variables.end()) {
      message += fmt::format("; --{} is set by {}", spec.flag, variable->second);
    }
    // AtOrigin begins with the file where nothing else is at fault.
    const auto file = options.files.find(key);
    if (file != options.files.end() && !refusal.starts_with(file->second)) {
      message +=
          fmt::format("; {} = {} is set in {}", key, fmt::join(given->second, ", "), file->second);
    }
  }
  return {status.code(), message};
}

Result<Options> ReadRunOptions(const std::string& config_file) {
  RawValues values;
  InputHashes read;
  PRISM_RETURN_IF_ERROR(AddConfigFile(config_file, &values, &read));
  PRISM_ASSIGN_OR_RETURN(Options options, TypedOptions(values));
  options.inputs = std::move(read);
  return options;
}

}  // namespace prism::launch
