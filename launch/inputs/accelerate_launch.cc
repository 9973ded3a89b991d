// Names and defaults are those of accelerate 1.15 (accelerate/utils/launch.py).
#include "launch/inputs/accelerate_launch.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"

namespace prism::launch {
namespace {

constexpr size_t kMostConfigBytes = size_t{1} << 20U;

// Options whose variable is the prefix with the rest of the name.
struct Family {
  std::string_view option;    // "fsdp-"
  std::string_view variable;  // "FSDP_"
  const char* defaults;       // "version=1", by option
};

constexpr Family kFsdp = {
    "fsdp-", "FSDP_",
    "version=1 sharding-strategy=FULL_SHARD reshard-after-forward=true offload-params=false "
    "min-num-params=100000000 forward-prefetch=false use-orig-params=true "
    "cpu-ram-efficient-loading=true sync-module-states=true activation-checkpointing=false "
    "activation-checkpointing-offload=false"};
constexpr Family kMegatron = {
    "megatron-lm-", "MEGATRON_LM_",
    "tp-degree=1 pp-degree=1 gradient-clipping=1.0 use-custom-fsdp=False no-load-optim=False "
    "eod-mask-loss=False no-save-optim=False optimizer-cpu-offload=False "
    "use-precision-aware-optimizer=False overlap-cpu-optimizer-d2h-h2d=False"};
constexpr Family kParallelism = {
    "parallelism-config-", "PARALLELISM_CONFIG_",
    "dp-replicate-size=1 dp-shard-size=1 tp-size=1 cp-size=1 cp-backend=torch sp-size=1 "
    "sp-backend=deepspeed"};
constexpr Family kFp8 = {"fp8-", "ACCELERATE_FP8_", ""};

// The options of DeepSpeed, and the ends of their variables behind "ACCELERATE_".
constexpr std::pair<const char*, const char*> kDeepSpeedOptions[] = {
    {"zero-stage", "DEEPSPEED_ZERO_STAGE"},
    {"gradient-accumulation-steps", "GRADIENT_ACCUMULATION_STEPS"},
    {"gradient-clipping", "GRADIENT_CLIPPING"},
    {"offload-optimizer-device", "DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"},
    {"offload-param-device", "DEEPSPEED_OFFLOAD_PARAM_DEVICE"},
    {"zero3-init-flag", "DEEPSPEED_ZERO3_INIT"},
    {"zero3-save-16bit-model", "DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"},
    {"deepspeed-config-file", "DEEPSPEED_CONFIG_FILE"},
    {"deepspeed-moe-layer-cls-names", "DEEPSPEED_MOE_LAYER_CLS_NAMES"}};

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string Upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string AsVariable(std::string_view prefix, std::string_view option) {
  std::string name = fmt::format("{}{}", prefix, option);
  std::ranges::replace(name, '-', '_');
  return Upper(name);
}

// A value of YAML as Python prints it; "" for none.
std::string YamlValue(std::string text) {
  text = text.substr(0, text.find(" #"));
  const size_t begin = text.find_first_not_of(" \t");
  const size_t end = text.find_last_not_of(" \t\r");
  text = begin == text.npos ? "" : text.substr(begin, end - begin + 1);
  if (text.size() > 1 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0]) {
    return text.substr(1, text.size() - 2);
  }
  const std::string low = Lower(text);
  if (low == "true" || low == "yes" || low == "on") {
    return "True";
  }
  if (low == "false" || low == "no" || low == "off") {
    return "False";
  }
  return low == "null" || text == "~" || text == "{}" ? "" : text;
}

// A value in the file is the option of that name; in a section, with the section's prefix.
std::string OptionOf(const std::string& section, std::string key) {
  for (const std::string_view prefix : {"fsdp_", "fp8_", "dynamo_"}) {
    if (section == std::string(prefix) + "config" && !key.starts_with(prefix)) {
      key.insert(0, prefix);
    }
  }
  std::ranges::replace(key, '_', '-');
  return key;
}

// Adds what the file says and the command line does not: lines "key: value", indented in sections.
// Returns the keys of its section deepspeed_config.
Result<std::vector<std::string>> AddConfig(const std::string& path, LauncherLine* line) {
  std::error_code ignored;
  if (std::filesystem::file_size(path, ignored) > kMostConfigBytes && !ignored) {
    return BadFile(fmt::format("{}: larger than 1 MiB; not a configuration of accelerate", path));
  }
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<std::string> of_deepspeed;
  std::istringstream lines(text);
  std::string section;
  int number = 0;
  for (std::string entry; std::getline(lines, entry);) {
    ++number;
    const size_t begin = entry.find_first_not_of(" \t\r");
    if (begin == entry.npos || entry[begin] == '#' || entry.starts_with("---")) {
      continue;
    }
    const size_t colon = entry.find(':');
    if (colon == entry.npos) {
      return BadFile(fmt::format("{}:{}: expected 'key: value'; only YAML of that form is read",
                                 path, number));
    }
    const std::string key = entry.substr(begin, colon - begin);
    const std::string value = YamlValue(entry.substr(colon + 1));
    section = begin == 0 ? "" : section;
    if (value.empty()) {
      section = begin == 0 ? key : section;
      continue;
    }
    if (section == "deepspeed_config") {
      of_deepspeed.push_back(key);
    }
    if (key == "distributed_type") {
      const std::string type = value == "FSDP"                  ? "use-fsdp"
                               : value == "DEEPSPEED"           ? "use-deepspeed"
                               : value == "MEGATRON_LM"         ? "use-megatron-lm"
                               : value.starts_with("MULTI_GPU") ? "multi-gpu"
                                                                : "";
      const bool is_said = line->Has("use-fsdp") || line->Has("use-deepspeed") ||
                           line->Has("use-megatron-lm") || line->Has("multi-gpu");
      if (!type.empty() && !is_said) {
        line->Add(type, "True");
      }
    } else {
      line->Add(OptionOf(section, key), value);
    }
    if (section == "parallelism_config") {
      line->Add("use-parallelism-config", "True");
    }
  }
  return of_deepspeed;
}

std::string DefaultConfig() {
  namespace fs = std::filesystem;
  const auto variable = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  fs::path home = variable("HF_HOME");
  if (home.empty()) {
    const std::string cache = variable("XDG_CACHE_HOME");
    home =
        (cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache)) / "huggingface";
  }
  const fs::path path = home / "accelerate" / "default_config.yaml";
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? path.string() : "";
}

bool IsOn(const LauncherLine& line, std::string_view option) {
  return line.Has(option) && line.Text(option) != "False";
}

// Python's text of a switch.
std::string SwitchText(const LauncherLine& line, std::string_view option) {
  return IsOn(line, option) ? "True" : "False";
}

class VariableWriter {
 public:
  VariableWriter(const LauncherLine& line, AccelerateLaunch* launch)
      : line_(line), launch_(launch) {}

  void Set(const std::string& name, const std::string& value) {
    launch_->variables.emplace_back(name, value);
  }

  void SetCommon(const std::string& precision) {
    if (IsOn(line_, "debug")) {
      Set("ACCELERATE_DEBUG_MODE", "true");
    }
    Set("ACCELERATE_MIXED_PRECISION", precision);
    if (precision == "fp8") {
      SetFamily(kFp8, false);
    }
    if (IsOn(line_, "enable-cpu-affinity")) {
      Set("ACCELERATE_CPU_AFFINITY", "1");
    }
  }

  void SetDynamo() {
    Set("ACCELERATE_DYNAMO_BACKEND", Upper(line_.Text("dynamo-backend", "no")));
    Set("ACCELERATE_DYNAMO_MODE", line_.Text("dynamo-mode", "default"));
    for (const char* option : {"use-fullgraph", "use-dynamic", "use-regional-compilation"}) {
      Set(AsVariable("ACCELERATE_DYNAMO_", option),
          SwitchText(line_, std::string("dynamo-") + option));
    }
  }

  void SetFamily(const Family& family, bool lowers) {
    const auto value_of = [&](const std::string& text) {
      const bool is_flag = text == "True" || text == "False";
      return lowers && is_flag ? Lower(text) : text;
    };
    std::istringstream defaults(family.defaults);
    for (std::string entry; defaults >> entry;) {
      const size_t equals = entry.find('=');
      const std::string option = entry.substr(0, equals);
      Set(AsVariable(family.variable, option),
          value_of(line_.Text(std::string(family.option) + option, entry.substr(equals + 1))));
    }
    for (const auto& [option, texts] : line_.given()) {
      if (option.starts_with(family.option)) {
        std::string rest = option.substr(family.option.size());
        rest = rest == "transformer-layer-cls-to-wrap" ? "transformer-cls-to-wrap" : rest;
        Set(AsVariable(family.variable, rest), value_of(texts.back()));
      }
    }
  }

  void SetDeepSpeed(const std::vector<std::string>& configured) {
    Set("ACCELERATE_USE_DEEPSPEED", "true");
    Set("ACCELERATE_CONFIG_DS_FIELDS", Lower(fmt::format("{}", fmt::join(configured, ","))));
    for (const auto& [option, variable] : kDeepSpeedOptions) {
      if (line_.Has(option)) {
        const std::string text = line_.Text(option);
        const bool is_path = std::string_view(option) == "deepspeed-config-file" ||
                             std::string_view(option) == "deepspeed-moe-layer-cls-names";
        Set(std::string("ACCELERATE_") + variable, is_path ? text : Lower(text));
      }
    }
    const char* const path = std::getenv("PYTHONPATH");
    std::error_code ignored;
    const std::string folder = std::filesystem::current_path(ignored).string();
    Set("PYTHONPATH", path == nullptr ? folder : fmt::format("{}:{}", path, folder));
  }

 private:
  const LauncherLine& line_;
  AccelerateLaunch* launch_;
};

Status CheckKind(const LauncherLine& line) {
  for (const char* option : {"cpu", "use-cpu", "tpu"}) {
    if (IsOn(line, option)) {
      return line.Wrong(fmt::format("--{} trains without GPUs; leave it out", option));
    }
  }
  return OkStatus();
}

}  // namespace

Result<AccelerateLaunch> ReadAccelerateLaunch(LauncherLine line) {
  AccelerateLaunch launch;
  std::vector<std::string> configured;
  const bool says_precision = line.Has("mixed-precision");
  const std::string config = line.Text("config-file", DefaultConfig());
  if (!config.empty()) {
    PRISM_ASSIGN_OR_RETURN(configured, AddConfig(config, &line));
    if (!line.Has("config-file")) {
      launch.notes.push_back(fmt::format("accelerate's configuration is read from {}", config));
    }
    if (!says_precision && line.Has("mixed-precision")) {
      configured.emplace_back("mixed_precision");
    }
  }
  PRISM_RETURN_IF_ERROR(CheckKind(line));
  PRISM_RETURN_IF_ERROR(line.ReadCount("num-machines", &launch.nodes));
  PRISM_RETURN_IF_ERROR(line.ReadCount("num-processes", &launch.ranks));
  launch.nodes = launch.nodes.value_or(1);
  std::string precision = Lower(line.Text("mixed-precision", "no"));
  precision = precision == "false" ? "no" : precision;
  VariableWriter writer(line, &launch);
  writer.SetCommon(precision);
  const bool by_deepspeed = IsOn(line, "use-deepspeed");
  if (by_deepspeed) {
    writer.SetDeepSpeed(configured);
    const bool standard = line.Text("deepspeed-multinode-launcher", "pdsh") == "standard";
    launch.starts = *launch.nodes > 1 && !standard ? AccelerateLaunch::Starts::kDeepSpeed
                                                   : AccelerateLaunch::Starts::kTorchrun;
  } else {
    writer.SetDynamo();
  }
  if (IsOn(line, "use-fsdp")) {
    writer.Set("ACCELERATE_USE_FSDP", "true");
    writer.SetFamily(kFsdp, true);
  }
  if (IsOn(line, "use-megatron-lm")) {
    writer.Set("ACCELERATE_USE_MEGATRON_LM", "true");
    writer.SetFamily(kMegatron, false);
  }
  if (IsOn(line, "use-parallelism-config")) {
    writer.Set("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
    writer.SetFamily(kParallelism, false);
  }
  const bool one = launch.ranks == 1 && !by_deepspeed && !IsOn(line, "use-fsdp") &&
                   !IsOn(line, "use-megatron-lm") && !IsOn(line, "multi-gpu");
  if (one) {
    launch.starts = AccelerateLaunch::Starts::kProgram;
    writer.Set("ACCELERATE_USE_CPU", "False");
  }
  return launch;
}

}  // namespace prism::launch
