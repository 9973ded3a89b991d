// Model, cluster and host presets: TOML files in launch/presets/, embedded into the programs when
// they are built, so that nothing depends on a path. `--model FILE` and `--cluster FILE` read a
// file of the same form; a model may also be a config.json of Hugging Face's, or the folder that
// has it. What clusters share is in profiles, one per GPU type (gpus/), version of NCCL (nccl/) and
// framework (frameworks/). A cluster or a profile names the profiles that it builds on; of a
// parameter given twice, the one nearer to the cluster counts. A cluster file may name a table of
// measured kernels beside it: measured_kernels = "FILE.csv" (launch/inputs/measured_kernels.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/input_hashes.h"
#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "launch/inputs/host_costs.h"
#include "launch/inputs/model_preset.h"
#include "launch/inputs/stated_numbers.h"

namespace prism::launch {

enum class PresetKind : uint8_t { kModel, kCluster, kHost, kProfile };
inline constexpr EnumNames<PresetKind, 4> kPresetKindNames = {{{PresetKind::kModel, "model"},
                                                               {PresetKind::kCluster, "cluster"},
                                                               {PresetKind::kHost, "host"},
                                                               {PresetKind::kProfile, "profile"}}};

struct EmbeddedPreset {
  PresetKind kind;
  std::string_view name;
  std::string_view text;
};

// All presets of the build: models, clusters, hosts, profiles. Defined in a file that
// CMake writes.
std::span<const EmbeddedPreset> EmbeddedPresets();
std::vector<std::string> PresetNames(PresetKind kind);

// The merged profiles. A [network] table says how nodes are connected for --network flow: kind
// ("rail-fat-tree", "clos", "torus"), source and, if they differ from the defaults, the fields of
// graph::NetworkSpec (a torus has torus_x, torus_y and torus_z).
struct Profile {
  std::string source;                                  // of the last one
  std::optional<graph::GpuSpec> gpu;                   // of the last one that has one
  graph::NetworkSpec network;                          // of the last one that has one
  std::map<std::string, graph::Parameter> parameters;  // by key
};

// Values for parameters of profiles instead of the ones in their files: profile, key, value.
using ProfileOverrides = std::map<std::string, std::map<std::string, double>>;

// Adds the profile of that name ("gpus/a100-80") and those it builds on, overriding what is there.
Status AddProfile(const std::string& name, const ProfileOverrides& overrides, Profile* profile);

// A cluster composed of profiles. Fails as reading a cluster preset does.
Result<graph::ClusterSpec> ComposeCluster(const std::vector<std::string>& profiles,
                                          const ProfileOverrides& overrides);

// The preset of that name, else the file of that name. kInvalidArgument with a near name when there
// is neither; kBadFile, naming the line, when the file cannot be used. Files that were read are
// also noted in `read`, if not null.
Result<ModelPreset> LoadModel(const std::string& name_or_file, InputHashes* read = nullptr);
Result<graph::ClusterSpec> LoadCluster(const std::string& name_or_file,
                                       InputHashes* read = nullptr);

// Host costs of a framework ("torchtitan": the profile frameworks/torchtitan) instead of the
// cluster's. kInvalidArgument, listing those that exist, for any other.
Status UseFramework(const std::string& name, graph::ClusterSpec* cluster);

// Parameters of a profile whose keys begin with `prefix`, instead of the cluster's.
Status LayOver(const std::string& name, std::string_view prefix, graph::ClusterSpec* cluster);

// What the cluster of that name or file states in a table.
Result<StatedNumbers> LoadStated(const std::string& name_or_file, StatedTable table);

// Times between ops (launch/inputs/host_costs.h).
Result<HostCosts> LoadHostCosts(const std::string& name_or_file, InputHashes* read = nullptr);

// A cluster from its text; `where` is the file's name for messages.
Result<graph::ClusterSpec> ParseCluster(std::string_view text,
                                        const std::string& where,
                                        InputHashes* read = nullptr);
Result<StatedNumbers> ParseStated(std::string_view text,
                                  const std::string& where,
                                  StatedTable table);

}  // namespace prism::launch
