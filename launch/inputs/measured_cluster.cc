#include "launch/inputs/measured_cluster.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/program/collective_kinds.h"
#include "launch/inputs/presets.h"
#include "replayer/cost/collective_cost.h"

namespace prism::launch {
namespace {

using graph::OpKind;

// Networks of GPUs that no cluster preset has.
const std::map<std::string, std::string>& NetworkOfGpu() {
  static const std::map<std::string, std::string> kNetworks = {
      {"gpus/v100", "networks/dgx-1v"},      {"gpus/a100-pcie", "networks/pcie-6"},
      {"gpus/h100-pcie", "networks/pcie-6"}, {"gpus/l40s", "networks/pcie-6"},
      {"gpus/h200-nvl", "networks/pcie-6"},  {"gpus/h100-96", "networks/dgx-h100"},
      {"gpus/gh200", "networks/dgx-h100"},   {"gpus/gb200", "networks/nvl72"},
      {"gpus/gb300", "networks/nvl72-800"},  {"gpus/b300", "networks/dgx-b300"}};
  return kNetworks;
}

// "NVIDIA A100-SXM4-80GB" → "A100": the first word with a letter and a digit.
std::string ModelOf(const std::string& gpu) {
  std::string word;
  for (const char c : gpu + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    const bool letter = std::ranges::any_of(word, [](unsigned char w) { return std::isalpha(w); });
    const bool digit = std::ranges::any_of(word, [](unsigned char w) { return std::isdigit(w); });
    if (letter && digit) {
      return word;
    }
    word.clear();
  }
  return "";
}

// On cards, which have another network.
bool IsCard(std::string gpu) {
  std::ranges::transform(gpu, gpu.begin(), [](unsigned char c) { return std::toupper(c); });
  return gpu.find("PCI") != std::string::npos || gpu.find("NVL") != std::string::npos;
}

// One that has no such word ("NVIDIA RTX PRO 6000 Blackwell Server Edition") is known by its whole
// name only.
bool IsModel(const std::string& profile, const std::string& gpu) {
  const std::string model = ModelOf(profile);
  return profile == gpu ||
         (!model.empty() && model == ModelOf(gpu) && IsCard(profile) == IsCard(gpu));
}

// The profile of the GPU whose memory is nearest; "": none.
std::string ProfileOfGpu(const std::string& gpu, int64_t bytes, std::string* name) {
  std::string nearest;
  int64_t least = 0;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    Profile profile;
    if (preset.kind != PresetKind::kProfile || !preset.name.starts_with("gpus/") ||
        !AddProfile(std::string(preset.name), {}, &profile).ok() || !profile.gpu ||
        !IsModel(profile.gpu->name, gpu)) {
      continue;
    }
    const int64_t apart = profile.gpu->name == gpu ? -1
                          : bytes > 0              ? std::abs(profile.gpu->memory_bytes - bytes)
                                                   : 0;
    if (nearest.empty() || apart < least) {
      nearest = preset.name;
      least = apart;
      *name = profile.gpu->name;
    }
  }
  return nearest;
}

// Every collective of measured time, on each communicator that has it in its slot.
template <typename Visit>
void VisitMeasured(const graph::Graph& graph, const Visit& visit) {
  std::set<uint32_t> seen;  // roles: ranks of one have groups alike
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    if (!seen.insert(graph.ranks.role[rank]).second) {
      continue;
    }
    const graph::Program& program = graph.role_of(Rank(rank)).program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == OpKind::kCollective &&
          (program.flags[op] & graph::kDurationFixed) != 0 &&
          program.collectives[program.signature[op]].bytes > 0) {
        visit(program.collectives[program.signature[op]],
              graph.ranks.comms(Rank(rank))[program.comm_slot[op]], program.value[op]);
      }
    }
  }
}

}  // namespace

Result<std::optional<graph::ClusterSpec>> ClusterOfGpu(const std::string& gpu, int64_t bytes) {
  std::string name;
  const std::string profile = gpu.empty() ? "" : ProfileOfGpu(gpu, bytes, &name);
  if (profile.empty()) {
    return std::optional<graph::ClusterSpec>();
  }
  for (const std::string& preset : PresetNames(PresetKind::kCluster)) {
    PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, LoadCluster(preset));
    if (cluster.gpu.name == name) {
      return std::optional(std::move(cluster));
    }
  }
  const auto network = NetworkOfGpu().find(profile);
  if (network == NetworkOfGpu().end()) {
    return std::optional<graph::ClusterSpec>();
  }
  PRISM_ASSIGN_OR_RETURN(
      graph::ClusterSpec cluster,
      ComposeCluster(
          {"nccl/2.30", "spread/published", "frameworks/eager", network->second, profile}, {}));
  cluster.name = profile.substr(profile.find('/') + 1) + "-8x";
  return std::optional(std::move(cluster));
}

std::optional<graph::Warning> MeasuredTransfersDiffer(const graph::Graph& graph) {
  constexpr double kMost = 2;
  const replayer::CollectiveCost cost(graph.cluster);
  graph::Warning warning = {.code = "measured_transfers_differ", .count = 0, .example = ""};
  double worst = kMost;
  VisitMeasured(graph, [&](const graph::CollectiveShape& shape, uint32_t comm, DurationNs time) {
    const auto members = graph.communicators.members_of(CommId(comm));
    const DurationNs model =
        cost.Collective(shape, replayer::TopologyOf(members, graph.cluster.gpus_per_node));
    const double ratio = static_cast<double>(std::max(model, time)) /
                         static_cast<double>(std::max<DurationNs>(std::min(model, time), 1));
    warning.count += ratio > kMost ? 1 : 0;
    if (ratio > worst) {
      worst = ratio;
      warning.example =
          fmt::format("{} of {} by {} ranks ({}): measured {}, model of {} {}",
                      graph::CollectiveKindName(shape.kind), FormatBytes(shape.bytes),
                      members.size(), graph.string(StringId(graph.communicators.name[comm])),
                      FormatDuration(time), graph.cluster.name, FormatDuration(model));
    }
  });
  return warning.count > 0 ? std::optional(warning) : std::nullopt;
}

void UseModelledTransfers(graph::Graph* graph) {
  for (graph::Role& role : graph->roles) {
    graph::Program& program = role.program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      const bool sized = program.kind[op] == OpKind::kCollective &&
                         program.collectives[program.signature[op]].bytes > 0;
      if (sized || program.kind[op] == OpKind::kPeerGroup) {
        program.flags[op] &= ~graph::kDurationFixed;
        program.value.Set(op, 0);
      }
    }
  }
}

}  // namespace prism::launch
