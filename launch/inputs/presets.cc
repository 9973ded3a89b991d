#include "launch/inputs/presets.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/job/fields.h"
#include "graph/job/names.h"
#include "launch/inputs/measured_kernels.h"
#include "launch/inputs/options.h"
#include "launch/inputs/toml_reader.h"
#include "replayer/cost/parameters.h"
#include "replayer/network/topology.h"

namespace prism::launch {
namespace {

struct PresetText {
  std::string text;
  std::string where;
};

Result<PresetText> FindText(PresetKind kind,
                            const std::string& name_or_file,
                            InputHashes* read = nullptr) {
  std::vector<std::string> names;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind != kind) {
      continue;
    }
    if (preset.name == name_or_file) {
      return PresetText{std::string(preset.text), fmt::format("preset {}", preset.name)};
    }
    names.emplace_back(preset.name);
  }
  const bool looks_like_file = name_or_file.find('/') != std::string::npos ||
                               std::filesystem::path(name_or_file).extension() == ".toml" ||
                               std::filesystem::path(name_or_file).extension() == ".json";
  std::error_code ignored;
  if (kind == PresetKind::kProfile ||
      (!looks_like_file && !std::filesystem::is_regular_file(name_or_file, ignored))) {
    const std::string near = NearestName(name_or_file, names);
    return InvalidArgument(fmt::format(
        "unknown {} '{}'; {}", NameOf(kPresetKindNames, kind), name_or_file,
        near.empty() ? fmt::format("presets: {}", fmt::join(names, ", "))
                     : fmt::format("did you mean {}? prism presets lists them all", near)));
  }
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(name_or_file));
  NoteInput(name_or_file, text, read);
  return PresetText{text, name_or_file};
}

void ReadGpu(TomlReader reader, graph::GpuSpec* gpu) {
  gpu->name = reader.Text("name");
  gpu->compute_major = static_cast<int32_t>(reader.Integer("compute_major", 7, 99));
  gpu->compute_minor = static_cast<int32_t>(reader.Integer("compute_minor", 0, 99));
  gpu->sm_count = static_cast<int32_t>(reader.Integer("sm_count", 1, 4096));
  constexpr int64_t kMaxBytes = int64_t{1} << 46;
  gpu->memory_bytes = reader.Integer("memory_bytes", 1 << 20, kMaxBytes);
  gpu->l2_bytes = reader.Integer("l2_bytes", 1, kMaxBytes);
  gpu->shared_memory_per_sm = reader.Integer("shared_memory_per_sm", 1, kMaxBytes);
  gpu->shared_memory_per_block_optin =
      reader.Integer("shared_memory_per_block_optin", 1, kMaxBytes);
  gpu->segments_ascending = reader.BoolOr("segments_ascending", true);
  reader.RefuseOthers();
}

void ReadNumber(TomlReader* reader, const char* key, int32_t* value) {
  constexpr int64_t kMaxCount = 1 << 20;
  *value = static_cast<int32_t>(reader->IntegerOr(key, 0, kMaxCount, *value));
}

void ReadNumber(TomlReader* reader, const char* key, double* value) {
  if (reader->Has(key)) {
    *value = reader->Number(key);
  }
}

// Keys are the fields of graph::NetworkSpec; `source` says where the values come from.
void ReadNetwork(TomlReader reader, graph::NetworkSpec* network) {
  using graph::FabricKind;
  using graph::FabricRouting;
  *network = {};
  reader.Text("source");
  network->kind = reader.Choice("kind", graph::kFabricKindNames);
  network->routing = network->kind == FabricKind::kTorus ? FabricRouting::kDimensionOrder
                                                         : FabricRouting::kAdaptive;
  if (reader.Has("routing")) {
    network->routing = reader.Choice("routing", graph::kFabricRoutingNames);
  }
#define PRISM_READ(member, name) ReadNumber(&reader, #name, &network->member);
  PRISM_TREE_FIELDS(PRISM_READ)
  PRISM_READ(torus[0], torus_x)
  PRISM_READ(torus[1], torus_y)
  PRISM_READ(torus[2], torus_z)
  PRISM_NETWORK_FIELDS(PRISM_READ)
#undef PRISM_READ
  reader.RefuseOthers();
}

// A parameter is a table with value, unit, source and mark; its key is its path below [parameters].
void ReadParameters(TomlReader reader,
                    const std::string& prefix,
                    std::map<std::string, graph::Parameter>* parameters) {
  for (const std::string& name : reader.Keys()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    TomlReader child = reader.Table(name);
    if (!child.Has("value")) {
      ReadParameters(child, key, parameters);
      continue;
    }
    graph::Parameter parameter;
    parameter.key = key;
    parameter.value = child.Number("value");
    parameter.unit = child.Text("unit");
    parameter.source = child.Text("source");
    parameter.mark = child.Choice("mark", graph::kMarkNames);
    child.RefuseOthers();
    (*parameters)[key] = std::move(parameter);
  }
}

void Override(const std::string& name, const ProfileOverrides& overrides, Profile* profile) {
  const auto found = overrides.find(name);
  if (found == overrides.end()) {
    return;
  }
  for (const auto& [key, value] : found->second) {
    graph::Parameter& parameter = profile->parameters[key];
    parameter.key = key;
    parameter.value = value;
    parameter.mark = graph::Mark::kFitted;
  }
}

// What a cluster and a profile have in common: the profiles they build on, a GPU, parameters.
// `depth` counts the levels of profiles.
Status ReadProfile(TomlReader reader,
                   int depth,
                   const ProfileOverrides& overrides,
                   Profile* profile) {
  constexpr int kMaxDepth = 4;
  if (depth > kMaxDepth) {
    return BadFile("profiles refer to each other in a circle");
  }
  for (const std::string& name : reader.TextsOr("profiles")) {
    const Result<PresetText> text = FindText(PresetKind::kProfile, name);
    if (!text.ok()) {
      reader.Fail("profiles", text.status().message());
      return OkStatus();
    }
    PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text->text, text->where));
    TomlReader below = document.root();
    below.Text("name");
    const std::string source = below.Text("source");
    PRISM_RETURN_IF_ERROR(ReadProfile(below, depth + 1, overrides, profile));
    profile->source = source;  // its own, not that of what it builds on
    PRISM_RETURN_IF_ERROR(document.status());
    Override(name, overrides, profile);
  }
  if (reader.Has("gpu")) {
    ReadGpu(reader.Table("gpu"), &profile->gpu.emplace());
  }
  if (reader.Has("network")) {
    ReadNetwork(reader.Table("network"), &profile->network);
    if (const std::string fault = replayer::NetworkFault(profile->network); !fault.empty()) {
      return BadFile(fault);
    }
  }
  if (reader.Has("parameters")) {
    ReadParameters(reader.Table("parameters"), "", &profile->parameters);
  }
  if (reader.Has("storage")) {
    ReadParameters(reader.Table("storage"), "storage", &profile->parameters);
  }
  reader.RefuseOthers();
  return OkStatus();
}

Status RefuseFaulty(const graph::ParameterTable& table, const std::string& where) {
  const std::vector<std::string> faults = replayer::CheckParameters(table);
  if (faults.empty()) {
    return OkStatus();
  }
  return BadFile(fmt::format("{}: {}; faults in all: {}; compare with the [parameters] of a preset",
                             where, faults.front(), faults.size()));
}

// The GPU and the parameters of a cluster.
Status UseProfile(const Profile& profile, const std::string& where, graph::ClusterSpec* cluster) {
  if (!profile.gpu.has_value()) {
    return BadFile(
        fmt::format("{}: names no GPU; add a [gpu] table or a profile from gpus/", where));
  }
  cluster->gpu = *profile.gpu;
  cluster->network = profile.network;
  std::vector<graph::Parameter> parameters;
  for (const auto& [key, parameter] : profile.parameters) {
    parameters.push_back(parameter);
  }
  cluster->parameters = graph::ParameterTable(std::move(parameters));
  return RefuseFaulty(cluster->parameters, where);
}

}  // namespace

std::vector<std::string> PresetNames(PresetKind kind) {
  std::vector<std::string> names;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind == kind) {
      names.emplace_back(preset.name);
    }
  }
  return names;
}

Result<StatedNumbers> ParseStated(std::string_view text,
                                  const std::string& where,
                                  StatedTable table) {
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, where));
  StatedNumbers stated;
  TomlReader root = document.root();
  if (const char* const name = NameOf(kStatedTableNames, table); root.Has(name)) {
    std::map<std::string, graph::Parameter> by_key;
    ReadParameters(root.Table(name), "", &by_key);
    for (auto& [key, number] : by_key) {
      stated.all.push_back(std::move(number));
    }
  }
  PRISM_RETURN_IF_ERROR(document.status());
  const std::string fault = CheckStated(table, stated);
  if (!fault.empty()) {
    return BadFile(fmt::format("{}: {}", where, fault));
  }
  return stated;
}

Result<graph::ClusterSpec> ParseCluster(std::string_view text,
                                        const std::string& where,
                                        InputHashes* read) {
  for (const auto& [table, name] : kStatedTableNames) {
    PRISM_RETURN_IF_ERROR(ParseStated(text, where, table).status());
  }
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, where));
  TomlReader reader = document.root();
  for (const auto& [table, name] : kStatedTableNames) {
    if (reader.Has(name)) {
      reader.Table(name);
    }
  }
  graph::ClusterSpec cluster;
  cluster.name = reader.Text("name");
  cluster.source = reader.Text("source");
  cluster.gpus_per_node = static_cast<int32_t>(reader.Integer("gpus_per_node", 1, 1024));
  const std::string kernels = reader.Has("measured_kernels") ? reader.Text("measured_kernels") : "";
  Profile profile;
  PRISM_RETURN_IF_ERROR(ReadProfile(reader, 0, {}, &profile).WithContext(where));
  PRISM_RETURN_IF_ERROR(document.status());
  PRISM_RETURN_IF_ERROR(UseProfile(profile, where, &cluster));
  if (!kernels.empty()) {
    const std::string path = std::filesystem::path(where).replace_filename(kernels).string();
    PRISM_RETURN_IF_ERROR(UseMeasuredKernels(path, &cluster, read));
  }
  return cluster;
}

Status AddProfile(const std::string& name, const ProfileOverrides& overrides, Profile* profile) {
  PRISM_RETURN_IF_ERROR(FindText(PresetKind::kProfile, name).status());
  const std::string text = fmt::format("profiles = [\"{}\"]\n", name);
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, name));
  PRISM_RETURN_IF_ERROR(ReadProfile(document.root(), 0, overrides, profile));
  return document.status();
}

Result<graph::ClusterSpec> ComposeCluster(const std::vector<std::string>& profiles,
                                          const ProfileOverrides& overrides) {
  Profile profile;
  for (const std::string& name : profiles) {
    PRISM_RETURN_IF_ERROR(AddProfile(name, overrides, &profile));
  }
  graph::ClusterSpec cluster;
  cluster.name = fmt::format("{}", fmt::join(profiles, " "));
  cluster.source = profile.source;
  PRISM_RETURN_IF_ERROR(UseProfile(profile, cluster.name, &cluster));
  return cluster;
}

Status UseFramework(const std::string& name, graph::ClusterSpec* cluster) {
  constexpr std::string_view kFolder = "frameworks/";
  std::vector<std::string_view> known;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind == PresetKind::kProfile && preset.name.starts_with(kFolder)) {
      known.push_back(preset.name.substr(kFolder.size()));
    }
  }
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    return InvalidArgument(fmt::format("--host-time fixed:{}: unknown framework; choose one of {}",
                                       name, fmt::join(known, ", ")));
  }
  return LayOver(std::string(kFolder) + name, "host.", cluster);
}

Status LayOver(const std::string& name, std::string_view prefix, graph::ClusterSpec* cluster) {
  Profile profile;
  PRISM_RETURN_IF_ERROR(AddProfile(name, {}, &profile));
  std::vector<graph::Parameter> laid;
  for (const auto& [key, parameter] : profile.parameters) {
    if (key.starts_with(prefix) && cluster->parameters.Find(key) != nullptr) {
      laid.push_back(parameter);
    }
  }
  cluster->parameters.Put(laid);
  return OkStatus();
}

Result<ModelPreset> LoadModel(const std::string& name_or_file, InputHashes* read) {
  namespace fs = std::filesystem;
  constexpr uintmax_t kLargest = uintmax_t{1} << 20U;
  const std::vector<std::string> presets = PresetNames(PresetKind::kModel);
  std::error_code error;
  std::string file = name_or_file;
  if (!std::ranges::count(presets, file) && fs::is_directory(file, error)) {
    file = (fs::path(file) / "config.json").string();
  }
  if (fs::is_regular_file(file, error) && fs::file_size(file, error) > kLargest) {
    return BadFile(fmt::format("{}: is larger than any description of a model, 1 MiB", file));
  }
  PRISM_ASSIGN_OR_RETURN(const PresetText text, FindText(PresetKind::kModel, file, read));
  return ParseModel(text.text, text.where);
}

Result<graph::ClusterSpec> LoadCluster(const std::string& name_or_file, InputHashes* read) {
  PRISM_ASSIGN_OR_RETURN(const PresetText text, FindText(PresetKind::kCluster, name_or_file, read));
  return ParseCluster(text.text, text.where, read);
}

Result<StatedNumbers> LoadStated(const std::string& name_or_file, StatedTable table) {
  PRISM_ASSIGN_OR_RETURN(const PresetText text, FindText(PresetKind::kCluster, name_or_file));
  return ParseStated(text.text, text.where, table);
}

Result<HostCosts> LoadHostCosts(const std::string& name_or_file, InputHashes* read) {
  PRISM_ASSIGN_OR_RETURN(const PresetText text, FindText(PresetKind::kHost, name_or_file, read));
  return ParseHostCosts(text.text, text.where);
}

}  // namespace prism::launch
