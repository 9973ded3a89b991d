// A role's program, prepared for evaluation: one dense list of steps per stream, durations filled
// in, host time as prefix sums, collectives and sends numbered, overlap charges attached to the
// waits that pay for them. Shared by all classes of the role.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/run_fold.h"

namespace prism::replayer {

class ComputeCost;

inline constexpr uint32_t kNone = 0xFFFFFFFFU;

enum class StepKind : uint8_t { kWork, kRecord, kWait, kCollective, kPeerGroup };

// One op as its stream sees it.
struct Step {
  DurationNs duration = 0;  // kWork
  DurationNs host_ns = 0;   // host cost from the start of the iteration through this op
  uint32_t op = 0;          // index in the program
  uint32_t aux =
      kNone;  // kRecord, kWait: event or kNone; kCollective: first call; kPeerGroup: group
  uint32_t charge = kNone;  // kWait: overlap charge
  StepKind kind = StepKind::kWork;
  bool compute = false;  // kWork: counts as compute in the breakdown
};

// An op at which the host thread waits.
struct HostWait {
  uint32_t op = 0;
  graph::OpKind kind = graph::OpKind::kDeviceSync;
  uint16_t stream = 0;      // kStreamSync; kEventSync: that the event was recorded on
  uint32_t event = kNone;   // kEventSync
  uint32_t charge = kNone;  // overlap charge
};

// A distinct (communicator slot, shape): one cost per class.
struct TransferKind {
  uint16_t comm_slot = 0;
  uint32_t shape = 0;        // index into Program::collectives
  DurationNs fixed_ns = -1;  // from the graph; -1: ask the cost model
};

// Calls of one NCCL group (kGroupedWithNext) are one step: they arrive together. Those on the same
// communicator run one after the other, those on different ones side by side.
struct CollectiveCall {
  uint32_t op = 0;
  uint16_t comm_slot = 0;
  uint32_t sequence = 0;              // on its slot, in the iteration
  uint32_t transfer = 0;              // TransferKind
  uint32_t next_in_group = kNone;     // call
  uint32_t previous_on_slot = kNone;  // call of the same group and slot
};

// One direction to or from one peer over one communicator.
struct Endpoint {
  uint16_t comm_slot = 0;
  uint16_t peer_slot = 0;
  bool is_send = false;
  uint32_t per_iteration = 0;  // transfers
};

struct PeerPost {
  uint32_t endpoint = 0;
  uint32_t sequence = 0;  // on its endpoint, in the iteration
  int64_t bytes = 0;
  DurationNs fixed_ns = -1;
};

// Posts of one group: posts[begin .. end). Groups of one batch are issued one after the other on
// different streams, with no work between: they share the links of the GPU inside its node.
struct PeerPosts {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t batch = 0;  // ascending
};

// A collective that a wait pays for: min(transfer time, compute_ns) times the slow-down.
struct ChargeSource {
  uint32_t charge = 0;
  uint32_t transfer = 0;  // TransferKind
  DurationNs compute_ns = 0;
};

// A compute duration multiplied by `scale`.
DurationNs ScaledCompute(DurationNs duration, double scale);

struct RolePlan {
  const graph::Program* program = nullptr;
  std::vector<std::vector<Step>> streams;
  std::vector<RunFold> folds;            // by stream
  std::vector<uint32_t> most_transfers;  // by stream: most that one of its steps waits for
  std::vector<DurationNs> host_ns;       // by op: as Step::host_ns
  std::vector<HostWait> host_waits;
  uint32_t event_count = 0;  // records that are waited for
  std::vector<TransferKind> transfers;
  std::vector<CollectiveCall> calls;
  std::vector<uint32_t> calls_per_slot;  // by communicator slot, in an iteration
  std::vector<Endpoint> endpoints;
  std::vector<PeerPosts> groups;
  std::vector<PeerPost> posts;
  std::vector<ChargeSource> charge_sources;
  uint32_t charge_count = 0;
  uint16_t first_stream = 0;  // stream whose first op begins the iteration
  uint32_t first_op = kNone;  // that op; kNone where no op has a stream
  // How many ops of the iteration after the last are run, to know when first_op would begin there:
  // those up to the last host wait before it. They need no other rank.
  uint32_t ahead = 0;

  [[nodiscard]] uint32_t size() const { return program->size(); }
  [[nodiscard]] DurationNs iteration_host_ns() const {
    return host_ns.empty() ? 0 : host_ns.back();
  }
  // Host cost from the start of the first iteration through the op at `position`.
  [[nodiscard]] DurationNs HostNsUntil(int64_t position) const {
    const int64_t n = size();
    return position / n * iteration_host_ns() + host_ns[static_cast<size_t>(position % n)];
  }
  // When first_op would begin in the iteration after the last of `iterations`, of which `ahead`
  // ops were run: where the host is at `base` (HostCursor::Segment) and first_stream is done at
  // `tail`.
  [[nodiscard]] TimeNs NextStart(int32_t iterations, TimeNs base, TimeNs tail) const {
    return std::max(tail, base + iterations * iteration_host_ns() + host_ns[first_op]);
  }
};

// Durations that do not depend on the rank.
struct OpCosts {
  std::vector<DurationNs> kernel;        // by signature
  std::vector<DurationNs> host;          // by OpKind
  const ComputeCost* compute = nullptr;  // copies and memsets
  // Of the role in question: the ops whose durations are multiplied by `factor`; null: none.
  const std::vector<bool>* sped_up = nullptr;
  double factor = 1;
};

// The costs of the graph's ops on `cluster`. `compute` is the cluster's cost model; a reference to
// it is kept.
OpCosts OpCostsOf(const graph::Graph& graph,
                  const graph::ClusterSpec& cluster,
                  const ComputeCost* compute);

RolePlan MakeRolePlan(const graph::Program& program, const OpCosts& costs, double compute_scale);

}  // namespace prism::replayer
