// prism presets: the models and clusters that ship with the programs, what the virtual device
// implements, and what the codes of warnings mean.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/warning_codes.h"
#include "launch/cli/verb.h"
#include "launch/inputs/presets.h"
#include "launch/process/facades.h"
#include "launch/process/install_paths.h"
#include "launch/process/program_torch.h"

namespace prism::launch {
namespace {

constexpr const char* kDeviceSurface = "device-surface";
constexpr const char* kWarnings = "warnings";

std::vector<std::string> PresetWords() {
  std::vector<std::string> words = {kDeviceSurface, kWarnings};
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    words.emplace_back(preset.name);
  }
  return words;
}

// One line about a preset: what it is.
Result<std::string> Headline(const EmbeddedPreset& preset) {
  const std::string where(preset.name);
  if (preset.kind == PresetKind::kModel) {
    PRISM_ASSIGN_OR_RETURN(const ModelPreset model, ParseModel(preset.text, where));
    return fmt::format("{}, {} parameters", model.description,
                       FormatApproximate(static_cast<double>(model.Parameters())));
  }
  if (preset.kind == PresetKind::kProfile) {
    Profile profile;
    PRISM_RETURN_IF_ERROR(AddProfile(where, {}, &profile));
    return profile.source;
  }
  if (preset.kind == PresetKind::kHost) {
    PRISM_ASSIGN_OR_RETURN(const HostCosts costs, ParseHostCosts(preset.text, where));
    return costs.source;
  }
  PRISM_ASSIGN_OR_RETURN(const graph::ClusterSpec cluster, ParseCluster(preset.text, where));
  return fmt::format("{} GPUs a node, {}", cluster.gpus_per_node, cluster.gpu.name);
}

Result<std::string> ListPresets(OutputFormat format) {
  std::string text;
  std::string json_text;
  JsonWriter json(&json_text);
  size_t width = 0;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    width = std::max(width, preset.name.size());
  }
  json.BeginArray();
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    PRISM_ASSIGN_OR_RETURN(const std::string headline, Headline(preset));
    text += fmt::format("{:<9}{:<{}}  {}\n", NameOf(kPresetKindNames, preset.kind), preset.name,
                        width, headline);
    json.BeginObject();
    json.Field("kind", NameOf(kPresetKindNames, preset.kind));
    json.Field("name", preset.name);
    json.Field("headline", headline);
    json.EndObject();
  }
  json.EndArray();
  text +=
      "\n"
      "prism presets NAME prints one, with the source of every number; prism presets "
      "device-surface\n"
      "prints what the virtual device implements, and prism presets warnings what warnings mean.\n";
  return format == OutputFormat::kJson ? json_text + "\n" : text;
}

Result<std::string> ShowSurface(OutputFormat format) {
  PRISM_ASSIGN_OR_RETURN(const TorchInstall torch, FindTorch(DefaultPython()));
  PRISM_ASSIGN_OR_RETURN(const std::vector<SurfaceName> names,
                         DeviceSurface(LoadedFiles(torch, {}), ShimLibrary()));
  std::string text;
  JsonWriter json(&text, JsonWriter::Style::kOneLine);
  if (format == OutputFormat::kJson) {
    json.BeginArray();
  }
  size_t implemented = 0;
  for (const SurfaceName& name : names) {
    implemented += name.is_implemented ? 1 : 0;
    const char* const state = name.is_implemented ? "implemented" : "refused";
    if (format == OutputFormat::kJson) {
      json.BeginObject();
      json.Field("library", name.library).Field("name", name.name).Field("state", state);
      json.EndObject();
    } else {
      text += fmt::format("{:<18}{:<13}{}\n", name.library, state, name.name);
    }
  }
  if (format == OutputFormat::kJson) {
    json.EndArray();
    return text + "\n";
  }
  return text + fmt::format("{} names implemented, {} refused by name\n",
                            FormatCount(static_cast<int64_t>(implemented)),
                            FormatCount(static_cast<int64_t>(names.size() - implemented)));
}

std::string WarningList(OutputFormat format) {
  std::string text;
  std::string json_text;
  JsonWriter json(&json_text);
  size_t width = 0;
  for (const graph::WarningCode& warning : graph::WarningCodes()) {
    width = std::max(width, warning.code.size());
  }
  json.BeginArray();
  for (const graph::WarningCode& warning : graph::WarningCodes()) {
    text += fmt::format("{:<{}}  {}\n", warning.code, width, warning.meaning);
    json.BeginObject();
    json.Field("code", warning.code).Field("meaning", warning.meaning);
    json.Field("shown_first", warning.is_shown_first).EndObject();
  }
  json.EndArray();
  return format == OutputFormat::kJson ? json_text + "\n" : text;
}

Result<std::string> ShowPreset(const std::string& name, OutputFormat format) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.name != name) {
      continue;
    }
    if (format == OutputFormat::kText) {
      return std::string(preset.text);
    }
    std::string text;
    JsonWriter json(&text);
    json.BeginObject();
    json.Field("kind", NameOf(kPresetKindNames, preset.kind)).Field("name", preset.name);
    json.Field("toml", preset.text).EndObject();
    return text + "\n";
  }
  const std::vector<std::string> known = PresetWords();
  const std::string near = NearestName(name, known);
  return InvalidArgument(fmt::format(
      "unknown preset '{}'; {}", name,
      near.empty() ? fmt::format("choose one of {}", fmt::join(known, ", "))
                   : fmt::format("did you mean {}? prism presets lists them all", near)));
}

Result<VerbOutput> RunPresets(const VerbArguments& arguments) {
  VerbOutput output;
  if (arguments.operands().empty()) {
    PRISM_ASSIGN_OR_RETURN(output.text, ListPresets(arguments.format()));
  } else if (arguments.operands().front() == kDeviceSurface) {
    PRISM_ASSIGN_OR_RETURN(output.text, ShowSurface(arguments.format()));
  } else if (arguments.operands().front() == kWarnings) {
    output.text = WarningList(arguments.format());
  } else {
    PRISM_ASSIGN_OR_RETURN(output.text,
                           ShowPreset(arguments.operands().front(), arguments.format()));
  }
  return output;
}

}  // namespace

Verb PresetsVerb() {
  Verb verb;
  verb.spec = {
      "presets",
      "[NAME]",
      "list the models and clusters that come with Prism, or print one",
      "NAME is a model, a cluster, a profile, or one of\n"
      "  device-surface  every exported name of the CUDA and NCCL libraries, and whether the "
      "virtual\n"
      "                  device implements or refuses it\n"
      "  warnings        the codes of warnings in summary.json, and what they mean\n"
      "To make your own, start with prism presets NAME > my.toml and give my.toml to --model or\n"
      "--cluster.\n",
      0,
      1,
      {},
      PresetWords()};
  verb.run = RunPresets;
  return verb;
}

}  // namespace prism::launch
