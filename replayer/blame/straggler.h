// Finds the slow rank by symptoms only: how long ranks compute, and how long each waits for the
// others in each of its communicators. A profile of a real job has these numbers too; what slowed
// the rank is not used.
//
// Ranks of a role do the same work, so one that computes clearly longer than the median of its role
// is slow. Where none does, a rank may be slowed in other ways (a slow host): then its own time,
// the iteration minus its waits, is clearly longer than the median. Clearly: by kLeastCompute or
// kLeastOwn, and by kDeviations standard deviations of the role, which are estimated from the
// median deviation. Own time is the coarser symptom: waits that overlap compute, or each other, are
// subtracted as well.
//
// Ranks of measured roles (imported profiles) have a role each, since no two were measured alike:
// they do the same work if all communicate the same. Where their compute tells nothing, those that
// the profiles themselves show to enter collectives last are slow (the warning kLateRanks).
//
// A rank that is the only one of its role cannot be compared directly. For such ranks the ratio of
// compute time to what their kernels take according to the graph is compared; where there are fewer
// than kFewestAlone of them no suspect can be named.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

inline constexpr double kLeastCompute = 0.01;  // of what the median rank of the role computes
inline constexpr double kLeastAlone = 0.03;    // the same, of a rank that is the only one of its
                                               // role
// Warning of an import, whose example is "rank 7: 4 ms, rank 2: 3 ms": how much less than the
// median of the profiled ranks they wait in collectives.
inline constexpr const char* kLateRanks = "late_ranks";
inline constexpr size_t kFewestAlone = 3;
inline constexpr double kLeastOwn = 0.1;  // of its iteration
inline constexpr double kDeviations = 8;

struct Suspect {
  Rank rank;
  double factor = 1;  // how many times as long as its role's median it computes; where compute is
                      // not longer: by own time, relative to the iteration
  std::vector<std::string> evidence;
};

// A communicator whose members wait: for whom, and how long.
struct Waiting {
  CommId communicator;
  Rank awaited;               // the one that waits least; lowest rank on ties
  int64_t ranks = 0;          // that wait longer than it
  DurationNs longest_ns = 0;  // longer than it, in one iteration
  DurationNs total_ns = 0;    // the same, summed over all members
};

struct Symptoms {
  std::vector<Suspect> suspects;  // largest factor first; empty: nobody is slow
  std::vector<Waiting> waiting;   // most waiting of a communicator first
};

// `ranks` and `waits_ns` as in ReplayResult. Of the graph, only the roles, the members of
// communicators and the warning above are used.
Symptoms FindStraggler(const graph::Graph& graph,
                       const std::vector<RankTimes>& ranks,
                       const std::vector<DurationNs>& waits_ns);

}  // namespace prism::replayer
