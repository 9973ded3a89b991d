// The job as the engine sees it: ranks merged into classes that cannot differ, communicators into
// communicator classes, sends and receives into channels between classes.
//
// The classes come from graph::RefineRanks, started from what the perturbations, gates and the
// network make of each rank. On top of that, ranks of a class must agree on how they are wired:
// which class holds the other end of each communicator and peer slot, and in which slot there.
// Where they do not, the wiring becomes part of the colour and refinement runs again.
//
// Ranks of a class do the same ops in the same order. Within a class, ranks that also have equal
// times form a lane: one lane where nothing slows a rank, a few with a straggler, one per rank with
// noise or with ReplayOptions::classes off. What ranks do is evaluated once per class, when they do
// it once per lane.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/engine/class_costs.h"
#include "replayer/engine/role_plan.h"
#include "replayer/perturb/interference.h"
#include "replayer/perturb/jitter.h"

namespace prism::replayer {

struct ReplayOptions;

// The members of a communicator class: arrivals of all entries make a collective start.
struct CommClass {
  CommTopology topology;
  bool spans_stages = false;  // members in several pipeline stages: waiting for them is bubble
  CommId representative;
  uint32_t entry_count = 0;
  uint32_t instances = 0;  // number of communicators with different times
};

// What one class calls on a communicator slot.
struct CommEntry {
  uint32_t comm_class = 0;
  uint32_t entry = 0;                 // index among the entries of the communicator class
  std::vector<uint32_t> instance_of;  // by lane: which communicator of the communicator class
};

// A pair of matching endpoints. side 0 sends, side 1 receives.
struct ChannelEnd {
  uint32_t channel = kNone;  // kNone: no matching endpoint (an invalid graph; stalls)
  uint32_t peer = 0;         // of the class's representative
  bool other_stage = false;  // the peer is in another pipeline stage
  PeerLoad::Reach reach = PeerLoad::Reach::kNode;
  double slow_factor = 1;
  std::vector<uint32_t> peer_lane;  // by lane: the lane of the other side
};

// Lanes [begin, end) of a class, which share all durations of compute.
struct LaneGroup {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t plan = 0;
};

struct RankClass {
  Rank representative;
  uint32_t size = 0;  // ranks
  uint32_t role = 0;
  int32_t kill_iteration = -1;       // as RankEffect
  std::vector<Rank> lanes;           // the rank that is evaluated for each
  std::vector<LaneGroup> groups;     // of lanes; plans that differ only in durations
  std::vector<DurationNs> delay_ns;  // by lane
  std::vector<Interference> interference;
  std::vector<HostPause> pauses;
  std::vector<CommEntry> comms;      // by communicator slot
  std::vector<ChannelEnd> channels;  // by endpoint of the plan
};

struct Partition {
  std::vector<RolePlan> plans;
  std::vector<RankClass> classes;
  std::vector<uint32_t> class_of;  // by rank
  std::vector<uint32_t> lane_of;   // by rank
  std::vector<CommClass> comm_classes;
  std::vector<uint32_t> comm_class_of;  // by communicator
  uint32_t channel_count = 0;
  Jitter jitter;  // of compute durations; if there is any, every rank has its own lane
};

// Where the other members of a class's communicators, and its peers, are.
ClassWiring WiringOf(const Partition& partition, uint32_t class_index);

// Whether waiting for the transfers of that step is waiting for another pipeline stage.
bool WaitsForStage(const Partition& partition,
                   const RankClass& rank_class,
                   const RolePlan& plan,
                   const Step& step);

// `gated` and killed ranks become separate classes. Fails on a rank, node or factor that the job
// does not have.
Result<Partition> MakePartition(const graph::Graph& graph,
                                const ReplayOptions& options,
                                const std::vector<Rank>& gated,
                                const OpCosts& costs);

}  // namespace prism::replayer
