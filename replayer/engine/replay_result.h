// What a replay answers: the times of every rank, communicator and iteration, and the timelines of
// traced ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"

namespace prism::replayer {

// How one rank spends a steady iteration. Where several apply at the same moment, the first of
// these counts. Sums to iteration_ns (replayer/engine/breakdown.h).
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

struct TransferTimes;  // replayer/engine/meeting.h

// What went over a link of a flow network in one direction, in a mean iteration; idle links are
// absent.
struct LinkLoad {
  std::string name;  // "node3.nic5-leaf7"
  std::string kind;  // "nic-leaf"
  double bytes = 0;
  double bytes_per_s = 0;  // that the link could carry
};

struct LinkLoads {
  std::vector<LinkLoad> links;            // in the order of the network's links
  std::map<std::string, int64_t> counts;  // links that the network has, by kind
  double iteration_s = 0;
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
  std::shared_ptr<const LinkLoads> links;          // under kFlow, without frozen times
  int64_t flows = 0;                               // under kFlow: flows that shared the network

  int32_t period = 1;        // iterations after which perturbations repeat
  DurationNs period_ns = 0;  // the last so many, of the slowest rank

  // The last iteration, or the mean over the last period: a pause of one rank makes others longer
  // in the iteration after it, and must not count twice.
  [[nodiscard]] DurationNs steady_iteration_ns() const {
    return period > 1 ? period_ns / period : iteration_ns.back();
  }
};

}  // namespace prism::replayer
