#include "replayer/cost/nccl_tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "graph/program/collective_kinds.h"

namespace prism::replayer {
namespace {

using graph::CollectiveKind;

constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;
constexpr double kForced = 1e9;  // seconds; more than any collective takes

// Latencies in microseconds by protocol (LL, LL128, Simple): baseLat and hwLat of tuning.cc.
using ByProtocol = std::array<double, 3>;
struct StepLatency {
  ByProtocol nvlink;
  ByProtocol pci;
  ByProtocol network;
};
// Those of them that changed between releases.
struct ReleaseLatencies {
  int32_t since;  // NcclFabric::release
  ByProtocol tree_base;
  ByProtocol ring_base;
  StepLatency tree;
  StepLatency ring;
  double nvls;               // a step of NVLS inside a node
  double nvls_tree_network;  // of NVLSTree between nodes
  double ring_ll_factor;     // bandwidth of a ring with LL over Simple's
};
constexpr auto kReleases = std::to_array<ReleaseLatencies>({
    {0,
     {4.4, 4.4, 0},
     {3.6, 10, 8.4},
     {{0.52, 1.25, 28}, {1, 1.9, 28}, {5, 8.5, 28}},
     {{0.47, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 28}},
     0,
     19,
     0.25},
    {219,
     {6.8, 14, 0},
     {6.6, 14, 8.4},
     {{0.6, 1.25, 28}, {1, 1.9, 28}, {5, 8.5, 28}},
     {{0.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}},
     23,
     14,
     0.25},
    {221,
     {6.8, 14, 0},
     {6.6, 14, 8.4},
     {{0.6, 1.25, 28}, {1, 1.9, 28}, {5, 8.5, 28}},
     {{0.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}},
     25,
     14,
     0.5},
    {223,
     {6.8, 14, 8.4},
     {6.6, 14, 8.4},
     {{0.6, 1.25, 4}, {1, 1.9, 4}, {5, 8.5, 14}},
     {{0.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}},
     25,
     14,
     0.5},
    {228,
     {6.8, 14, 8.4},
     {6.6, 14, 8.4},
     {{0.6, 1.25, 4}, {1, 1.9, 4}, {5, 8.5, 14}},
     {{0.6, 1.9, 3.4}, {1, 2.5, 5.7}, {2.7, 4, 14}},
     25,
     20.9,
     0.5},
});
constexpr double kNvlsNetwork = 18;
constexpr int32_t kFirstNvls = 217;
constexpr int32_t kFirstNvlsTree = 218;

const ReleaseLatencies& LatenciesOf(int32_t release) {
  const auto* entry = kReleases.end() - 1;
  while (entry->since > release) {
    --entry;
  }
  return *entry;
}

constexpr double kCollNetStep = 2.8;
constexpr double kCollNetNetwork = 30;
constexpr double kPost = 1;  // netOverhead of an Intel host, per step; three times for Simple

// GB/s by architecture (Volta, Ampere, Hopper, Blackwell) and one, two, more nodes.
using ByNodes = std::array<double, 3>;
constexpr std::array<ByNodes, 4> kLlCap = {
    {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr std::array<ByNodes, 4> kRingLl128Channel = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
constexpr std::array<ByNodes, 4> kTreeLl128Channel = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr std::array<ByNodes, 4> kTreeChannel = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
// NVLS bandwidth relative to the ring's; none before Hopper.
constexpr std::array<double, 4> kNvlsEfficiency = {0, 0, 0.85, 0.74};
// NCCL has NVLS on five GPUs as well, with one channel per GPU and a bounded speed per channel, so
// the ring wins below six: published ramps on H200 and B200 show the same.
constexpr int32_t kNvlsLeastRanks = 6;
constexpr double kPlainTreeFactor = 0.85;

// treeCorrectionFactor: entry i is for about 64 · 2^i bytes.
constexpr double kTreeCorrection[][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

size_t NodesIndex(const NcclFabric& fabric) {
  return static_cast<size_t>(std::clamp(fabric.nodes, 1, 3) - 1);
}

double PerArchitecture(const std::array<ByNodes, 4>& table, const NcclFabric& fabric) {
  return table[static_cast<size_t>(fabric.architecture)][NodesIndex(fabric)] * kGiga;
}

}  // namespace

std::string_view NcclAlgorithmName(NcclAlgorithm algorithm) {
  constexpr std::array<std::string_view, 5> kNames = {"Tree", "Ring", "NVLS", "NVLSTree",
                                                      "CollNet"};
  return kNames[static_cast<size_t>(algorithm)];
}

std::string_view NcclProtocolName(NcclProtocol protocol) {
  constexpr std::array<std::string_view, 3> kNames = {"LL", "LL128", "Simple"};
  return kNames[static_cast<size_t>(protocol)];
}

NcclArchitecture ArchitectureOf(int32_t compute_major) {
  if (compute_major <= 7) {
    return NcclArchitecture::kVolta;
  }
  if (compute_major == 8) {
    return NcclArchitecture::kAmpere;
  }
  return compute_major == 9 ? NcclArchitecture::kHopper : NcclArchitecture::kBlackwell;
}

double RingSteps(CollectiveKind kind, int32_t size) {
  return kind == CollectiveKind::kAllReduce ? 2.0 * (size - 1) : size - 1.0;
}

double LlBandwidthCap(const NcclFabric& fabric) {
  return PerArchitecture(kLlCap, fabric);
}

double TreeCorrection(NcclProtocol protocol, int64_t bytes) {
  const int entry = bytes < 64 ? 0 : static_cast<int>(std::log2(static_cast<double>(bytes) / 64));
  return entry < 24 ? kTreeCorrection[static_cast<size_t>(protocol)][entry] : 1;
}

bool NcclTuner::Supports(CollectiveKind kind, NcclChoice choice) const {
  const bool simple = choice.protocol == NcclProtocol::kSimple;
  const bool known = choice.protocol != NcclProtocol::kLl128 || fabric_.nodes == 1 || fabric_.ll128;
  switch (choice.algorithm) {
    case NcclAlgorithm::kRing:
      return known;
    case NcclAlgorithm::kTree:
      return known && kind == CollectiveKind::kAllReduce;
    case NcclAlgorithm::kNvls:
      return simple && fabric_.nvls && fabric_.release >= kFirstNvls && fabric_.nodes == 1 &&
             !graph::IsChain(kind) && fabric_.ranks_per_node >= kNvlsLeastRanks;
    case NcclAlgorithm::kNvlsTree:
      return simple && fabric_.nvls && fabric_.release >= kFirstNvlsTree && fabric_.nodes > 1 &&
             kind == CollectiveKind::kAllReduce && fabric_.fewest_per_node >= kNvlsLeastRanks;
    case NcclAlgorithm::kCollNet:
      return simple && fabric_.in_network && fabric_.nodes > 1 &&
             kind == CollectiveKind::kAllReduce;
  }
  return false;
}

double NcclTuner::RingLatency(CollectiveKind kind, int protocol) const {
  const auto p = static_cast<size_t>(protocol);
  const ReleaseLatencies& table = LatenciesOf(fabric_.release);
  const double steps = RingSteps(kind, fabric_.size);
  double intra = fabric_.nvlink ? table.ring.nvlink[p] : table.ring.pci[p];
  if (graph::IsChain(kind) && fabric_.nodes == 1) {
    return table.ring_base[p] + intra;  // all channels run one way: one step is exposed
  }
  // With one rank per node the latency of a step is fully exposed: the tree's.
  double inter = fabric_.ranks_per_node == 1 ? table.tree.network[p] : table.ring.network[p];
  inter += fabric_.hop_seconds / kMicro * (protocol == 2 ? 2 : 1);
  double inter_steps = 0;
  if (fabric_.nodes > 1) {
    intra = std::max(intra, protocol == 2 ? 3 * kPost : kPost);
    inter_steps = RingSteps(kind, fabric_.nodes);
  }
  return table.ring_base[p] + (steps - inter_steps) * intra + inter_steps * inter;
}

double NcclTuner::LatencySeconds(CollectiveKind kind, NcclChoice choice) const {
  const auto p = static_cast<size_t>(choice.protocol);
  const ReleaseLatencies& table = LatenciesOf(fabric_.release);
  const double depth = std::floor(std::log2(static_cast<double>(fabric_.nodes)));
  const double hop = fabric_.hop_seconds / kMicro * (p == 2 ? 2 : 1);
  const double local = fabric_.ranks_per_node - 1.0;
  double latency = 0;
  switch (choice.algorithm) {
    case NcclAlgorithm::kRing:
      latency = RingLatency(kind, static_cast<int>(choice.protocol));
      break;
    case NcclAlgorithm::kTree: {
      const double intra = fabric_.nvlink ? table.tree.nvlink[p] : table.tree.pci[p];
      latency = table.tree_base[p] + 2 * (local * intra + depth * (table.tree.network[p] + hop));
      break;
    }
    case NcclAlgorithm::kNvls:
      latency = table.nvls + (fabric_.nodes > 1 ? kNvlsNetwork + hop : 0);
      break;
    case NcclAlgorithm::kNvlsTree:
      latency = table.nvls + 2 * depth * (table.nvls_tree_network + hop);
      break;
    case NcclAlgorithm::kCollNet:
      latency = 2 * local * kCollNetStep + kCollNetNetwork + hop;
      break;
  }
  return latency * kMicro;
}

double NcclTuner::BusBandwidth(CollectiveKind kind, NcclChoice choice) const {
  const double inter = fabric_.nodes > 1 ? fabric_.inter_bandwidth : fabric_.intra_bandwidth;
  const auto channel = [&](const std::array<ByNodes, 4>& table) {
    return fabric_.channels * PerArchitecture(table, fabric_);
  };
  double bus = fabric_.nodes <= 2 && fabric_.ranks_per_node > 1
                   ? std::min(fabric_.intra_bandwidth, 2 * inter)
                   : std::min(fabric_.intra_bandwidth, inter);
  const double nvls =
      fabric_.intra_bandwidth * kNvlsEfficiency[static_cast<size_t>(fabric_.architecture)];
  switch (choice.algorithm) {
    case NcclAlgorithm::kRing:
      bus = std::min(fabric_.intra_bandwidth, inter);
      if (choice.protocol == NcclProtocol::kLl) {
        return std::min(bus * LatenciesOf(fabric_.release).ring_ll_factor, LlBandwidthCap(fabric_));
      }
      return choice.protocol == NcclProtocol::kLl128
                 ? std::min(bus * kRingLl128Factor, channel(kRingLl128Channel))
                 : bus;
    case NcclAlgorithm::kTree:
      // Nodes that reduce in their switch leave the tree its plain pattern.
      bus = std::min(bus * kTreeFactor, channel(kTreeChannel)) *
            (fabric_.nvls && fabric_.nodes > 2 ? kPlainTreeFactor : 1);
      if (choice.protocol == NcclProtocol::kLl) {
        return std::min(bus * kTreeLlFactor, LlBandwidthCap(fabric_));
      }
      return choice.protocol == NcclProtocol::kLl128
                 ? std::min(bus * (fabric_.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                            channel(kTreeLl128Channel))
                 : bus;
    case NcclAlgorithm::kNvls:
      return kind == CollectiveKind::kAllReduce
                 ? nvls
                 : nvls * (fabric_.ranks_per_node - 1) / fabric_.ranks_per_node;
    case NcclAlgorithm::kNvlsTree:
      return std::min(nvls, fabric_.nodes <= 2 ? inter : inter / 2);
    case NcclAlgorithm::kCollNet:
      return std::min(fabric_.intra_bandwidth, inter) * 0.85;
  }
  return bus;
}

double NcclTuner::Bandwidth(CollectiveKind kind, NcclChoice choice, int64_t bytes) const {
  double bandwidth = BusBandwidth(kind, choice);
  switch (choice.algorithm) {
    case NcclAlgorithm::kRing:
      return graph::IsChain(kind) ? bandwidth
                                  : bandwidth * fabric_.size / RingSteps(kind, fabric_.size);
    case NcclAlgorithm::kNvls:
      return kind == CollectiveKind::kAllReduce ? bandwidth * 5 / 6 : bandwidth;
    case NcclAlgorithm::kNvlsTree:
      return bandwidth * 5 / 6;
    case NcclAlgorithm::kTree:
      return bandwidth / 2 * TreeCorrection(choice.protocol, bytes);
    case NcclAlgorithm::kCollNet:
      return bandwidth / 2;
  }
  return bandwidth;
}

double NcclTuner::EstimateSeconds(CollectiveKind kind, NcclChoice choice, int64_t bytes) const {
  double latency = LatencySeconds(kind, choice);
  const double a_rank = static_cast<double>(bytes) / (fabric_.channels * fabric_.size);
  if (choice.algorithm == NcclAlgorithm::kRing && choice.protocol == NcclProtocol::kSimple &&
      fabric_.nodes > 1 && kind == CollectiveKind::kAllReduce && a_rank >= 64) {
    latency *= fabric_.architecture == NcclArchitecture::kVolta ? 1.9 : 1.4;  // the ring's plateau
  }
  return latency + static_cast<double>(bytes) / Bandwidth(kind, choice, bytes);
}

NcclChoice NcclTuner::Choose(CollectiveKind kind,
                             int64_t bytes,
                             std::optional<NcclAlgorithm> only) const {
  NcclChoice best;
  double least = std::numeric_limits<double>::infinity();
  for (int a = 0; a < 5; ++a) {
    for (int p = 0; p < 3; ++p) {
      const NcclChoice choice = {static_cast<NcclAlgorithm>(a), static_cast<NcclProtocol>(p)};
      if (!Supports(kind, choice)) {
        continue;
      }
      // A choice that is forced and supported beats everything else.
      const bool forced = only.has_value() && *only == choice.algorithm;
      const double seconds = EstimateSeconds(kind, choice, bytes) - (forced ? kForced : 0);
      if (seconds < least) {
        least = seconds;
        best = choice;
      }
    }
  }
  return best;
}

}  // namespace prism::replayer
