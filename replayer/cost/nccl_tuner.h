// Which algorithm and protocol NCCL chooses for a collective: the one with the lowest time by its
// own estimate, latency plus bytes over bandwidth.
//
// Form and constants are those of NCCL 2.30.7 (src/graph/tuning.cc and topo.h); latencies and the
// weight of LL are those of the requested release (tuning.cc of 2.12 to 2.30). Other differences
// that matter here: NVLS exists since 2.17 and NVLSTree since 2.18; PAT since 2.23; before 2.28
// NVLS of all_gather and reduce_scatter required registered buffers and is chosen less often; the
// LL128 caps of Hopper and Blackwell came with those GPUs, earlier versions use Ampere's. The
// estimate only decides; how long the choice takes is computed in replayer/cost/collective_cost.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/program/op.h"

namespace prism::replayer {

enum class NcclAlgorithm : uint8_t { kTree, kRing, kNvls, kNvlsTree, kCollNet };
enum class NcclProtocol : uint8_t { kLl, kLl128, kSimple };

std::string_view NcclAlgorithmName(NcclAlgorithm algorithm);
std::string_view NcclProtocolName(NcclProtocol protocol);

struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;

  bool operator==(const NcclChoice&) const = default;
};

// GPU generation, as far as NCCL's tables distinguish them.
enum class NcclArchitecture : uint8_t { kVolta, kAmpere, kHopper, kBlackwell };
NcclArchitecture ArchitectureOf(int32_t compute_major);

// Releases are 100 times major and minor: 221 for 2.21.
inline constexpr int32_t kNewestNccl = 230;

// What NCCL's graph search found for one communicator. Bandwidths in byte/s, over all channels.
struct NcclFabric {
  NcclArchitecture architecture = NcclArchitecture::kHopper;
  int32_t release = kNewestNccl;
  int32_t size = 1;
  int32_t nodes = 1;
  int32_t ranks_per_node = 1;   // on the fullest node
  int32_t fewest_per_node = 1;  // on the emptiest
  double channels = 1;
  double intra_bandwidth = 0;  // of a ring inside a node
  double inter_bandwidth = 0;  // of a node's NICs; unused for one node
  double hop_seconds = 0;      // added by the network to NCCL's latency per step
  bool nvlink = true;          // else PCIe
  bool nvls = false;           // the switch can reduce
  bool in_network = false;     // the network can reduce (CollNet)
  bool ll128 = true;           // LL128 across nodes
};

class NcclTuner {
 public:
  explicit NcclTuner(const NcclFabric& fabric) : fabric_(fabric) {}

  // `only`: as if NCCL_ALGO allowed no other algorithm; ignored if NCCL does not have it for that
  // kind.
  [[nodiscard]] NcclChoice Choose(graph::CollectiveKind kind,
                                  int64_t bytes,
                                  std::optional<NcclAlgorithm> only = std::nullopt) const;

  // Whether NCCL has that combination for that kind on this communicator.
  [[nodiscard]] bool Supports(graph::CollectiveKind kind, NcclChoice choice) const;

  // NCCL's latency term and bandwidth (bytes of the call per second), including its plateau and
  // tree corrections.
  [[nodiscard]] double LatencySeconds(graph::CollectiveKind kind, NcclChoice choice) const;
  [[nodiscard]] double Bandwidth(graph::CollectiveKind kind,
                                 NcclChoice choice,
                                 int64_t bytes) const;

 private:
  [[nodiscard]] double RingLatency(graph::CollectiveKind kind, int protocol) const;
  [[nodiscard]] double BusBandwidth(graph::CollectiveKind kind, NcclChoice choice) const;
  [[nodiscard]] double EstimateSeconds(graph::CollectiveKind kind,
                                       NcclChoice choice,
                                       int64_t bytes) const;

  NcclFabric fabric_;
};

// Steps of a ring: each moves 1/size of the bytes.
double RingSteps(graph::CollectiveKind kind, int32_t size);

// Bandwidth factors relative to Simple, and the cap of LL, as in the tuner; timing uses them as
// well.
double LlBandwidthCap(const NcclFabric& fabric);
double TreeCorrection(NcclProtocol protocol, int64_t bytes);
inline constexpr double kRingLlFactor = 0.5;
inline constexpr double kRingLl128Factor = 0.92;
inline constexpr double kTreeFactor = 0.92;
inline constexpr double kTreeLlFactor = 1 / 3.8;

}  // namespace prism::replayer
