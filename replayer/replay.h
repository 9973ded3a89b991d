// Graph × costs × perturbations → virtual time of every rank.
//
//   Result<ReplayResult> result = Replay(graph, options);
//
// Costs that depend on neither rank nor time (of a kernel, of a collective) come from
// replayer/cost; what waits for what is in replayer/engine/engine.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/cost/nccl_tuner.h"
#include "replayer/perturb/interference.h"

namespace prism::replayer {

// One --perturb option, parsed (launch/inputs/perturbation.h).
enum class PerturbationKind : uint8_t {
  kStraggler,
  kLink,
  kKill,
  kLate,
  kJitter,
  kHost,
  kPeriodic,
  kFail
};

// Distribution of the factor by which noise multiplies a duration; its mean is 1, its standard
// deviation the relative spread. Never below 0.
enum class JitterShape : uint8_t { kNormal, kLognormal, kExponential, kUniform };
inline constexpr size_t kJitterShapes = 4;

struct Perturbation {
  PerturbationKind kind = PerturbationKind::kStraggler;
  std::vector<Rank> ranks;  // kStraggler, kKill, kLate, kHost, kPeriodic
  double factor = 1;        // kStraggler, kLink: compute or transfers take this times as long;
                            // kHost: the same for the host's issuing, not its sleeps; kJitter:
                            // relative spread
  JitterShape shape = JitterShape::kNormal;
  int32_t node_a = -1;  // kLink
  int32_t node_b = -1;
  int32_t iteration = -1;   // kKill: the rank stops at the start of this iteration, from 0
  DurationNs delay_ns = 0;  // kLate: host time before the first op
  // kPeriodic: every period_ns the device is stopped for duration_ns
  // (replayer/perturb/interference.h); or the host is, before each iteration whose number is a
  // multiple of period_iterations, except the first.
  DurationNs period_ns = 0;
  int32_t period_iterations = 0;
  DurationNs duration_ns = 0;
  std::string part = {};  // kFail: switch, NIC or link out of service (replayer/network/topology.h)
  std::string text = {};  // as the user wrote it, for messages
};

// NCCL_ALGO for the communicators of one name; an empty name means all.
struct ForcedAlgorithm {
  std::string communicator;
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
};

// How long transfers between nodes take: by the bottleneck of their path, or by sharing the network
// with all others (replayer/network/). Under kFlow every rank is evaluated separately.
enum class NetworkModel : uint8_t { kAnalytic, kFlow };

struct TransferTimes;  // replayer/engine/rendezvous.h

struct ReplayOptions {
  NetworkModel network = NetworkModel::kAnalytic;
  // Under kFlow: what transfers took in an earlier replay of the graph, instead of a network.
  std::shared_ptr<const TransferTimes> frozen;
  int32_t iterations = 3;  // replayed; the last gives the steady numbers
  std::vector<Perturbation> perturbations;
  std::vector<Rank> traced;                 // ranks whose whole timeline is kept (Timeline)
  std::vector<uint32_t> placement;          // by rank: its GPU; empty: rank r is on GPU r
  std::vector<ForcedAlgorithm> algorithms;  // the last that fits a communicator counts
  uint64_t seed = 0;                        // of jitter
  double compute_scale = 1;                 // multiplies every compute duration (intervals)
  double comm_scale = 1;                    // multiplies every transfer duration (intervals)
  int32_t threads = 1;                      // never changes a result
  bool classes = true;    // false: every rank is evaluated separately; changes no result
  bool fold = true;       // false: every kernel of a run is evaluated; changes no result
  bool breakdown = true;  // false: of RankTimes only iteration_ns is filled, in half of the time
};

// How one rank spends a steady iteration. Where several apply at the same moment, the first of
// these counts. Sums to iteration_ns (breakdown.h).
struct RankTimes {
  DurationNs iteration_ns = 0;
  DurationNs compute_ns = 0;
  DurationNs exposed_comm_ns = 0;
  DurationNs bubble_ns = 0;
  DurationNs idle_ns = 0;

  bool operator==(const RankTimes&) const = default;
};

// When each op of a traced rank was issued, began and ended, in every iteration. Index: iteration *
// program.size() + op.
struct Timeline {
  Rank rank;
  size_t whole = 0;  // ops of whole iterations; some more of the next one follow (RolePlan::ahead)
  std::vector<TimeNs> issue;
  std::vector<TimeNs> start;           // for a collective: its own arrival
  std::vector<TimeNs> transfer_start;  // collectives and peer groups: when the last member arrived
  std::vector<TimeNs> end;
  // Of collectives and peer groups, what determined the end (of traced ranks, not of gated ones):
  std::vector<uint32_t>
      decisive;                // the transfer that ended last: index of RolePlan::calls or posts
  std::vector<uint32_t> last;  // collectives: who arrived last (as ReplayResult::alike)
  TimeNs steady_begin = 0;     // of the last whole iteration, which takes RankTimes::iteration_ns
};

// Traffic of one communicator in a steady iteration: collectives, and sends and receives, of its
// busiest member. For collectives all members have the same values except wait_ns_max.
struct CommunicatorTimes {
  int64_t calls = 0;           // collectives, sends and receives
  int64_t bytes = 0;           // as CollectiveShape::bytes; of sends and receives their own
  DurationNs transfer_ns = 0;  // in transfer
  DurationNs wait_ns_max = 0;  // largest over members: sum of waits for the last arrival

  bool operator==(const CommunicatorTimes&) const = default;
};

struct ReplayResult {
  std::vector<RankTimes> ranks;                  // by rank
  std::vector<CommunicatorTimes> communicators;  // by communicator
  std::vector<DurationNs> iteration_ns;          // by iteration: start-to-start of the slowest rank
  std::vector<Timeline> timelines;               // by ReplayOptions::traced
  std::vector<Rank> alike;                       // by rank: the rank whose times it shares, to the
                                                 // nanosecond
  // By rank and communicator slot, as RankTable::comm_ids: waits for the last arrival in the steady
  // iteration. Empty without ReplayOptions::breakdown.
  std::vector<DurationNs> waits_ns;
  int64_t classes = 0;                             // groups of ranks that were evaluated once
  int64_t rank_ops = 0;                            // ops whose start and end were computed
  int64_t folded_ops = 0;                          // ops evaluated as part of a run of kernels
  std::shared_ptr<const TransferTimes> transfers;  // under NetworkModel::kFlow
  int64_t flows = 0;                               // under kFlow: flows that shared the network

  [[nodiscard]] DurationNs steady_iteration_ns() const { return iteration_ns.back(); }
};

// What issuing an op costs the host thread, by graph::OpKind; host gaps and markers cost nothing.
std::vector<DurationNs> HostCosts(const graph::ParameterTable& table);

// The factor by which the perturbations slow the host of a rank, and a host cost scaled by it.
double HostFactor(const std::vector<Perturbation>& perturbations, Rank rank);
DurationNs SlowedHostCost(DurationNs cost, double factor);

// The pauses that the perturbations cause on the host of a rank.
std::vector<HostPause> HostPauses(const std::vector<Perturbation>& perturbations, Rank rank);

// Replays the job. Fails, naming ranks and ops, when the graph stalls or a killed rank makes it
// stall.
Result<ReplayResult> Replay(const graph::Graph& graph, const ReplayOptions& options);

}  // namespace prism::replayer
