// The slow rank, named by symptoms alone: how long ranks compute, and how long each waits for the
// others in each of its communicators. A profile of a real job holds these numbers as well; what
// slowed the rank is not looked at.
//
// Ranks of a role do the same work, so one that computes clearly longer than the median of its role
// is slow. Where none does, a rank may be held up in other ways (a slow host): then its own time,
// the iteration less its waits, is clearly longer than the median. Clearly: by kLeastCompute or
// kLeastOwn, and by kDeviations standard deviations of the role, which are estimated by the median
// deviation. Own time is the coarser symptom: waits beside compute, and beside each other, are
// taken off as well.
//
// Ranks that are alone in their role have nobody to be compared with directly. Theirs is how many
// times as long they compute as their kernels take by the graph, compared among them; where there
// are fewer than kFewestAlone nobody can be told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "replayer/replay.h"

namespace prism::replayer {

inline constexpr double kLeastCompute = 0.01;  // of what the median rank of the role computes
inline constexpr double kLeastAlone = 0.03;    // likewise, of a rank that is alone in its role
inline constexpr size_t kFewestAlone = 3;
inline constexpr double kLeastOwn = 0.1;  // of its iteration
inline constexpr double kDeviations = 8;

struct Suspect {
  Rank rank;
  double factor = 1;  // how many times as long as its role's median it computes; where it computes
                      // no longer: takes, with the iteration as the measure
  std::vector<std::string> evidence;
};

// A communicator whose members wait: for whom, and how long.
struct Waiting {
  CommId communicator;
  Rank awaited;               // the one that waits least; of those alike the lowest
  int64_t ranks = 0;          // that wait longer than it
  DurationNs longest_ns = 0;  // more than it, in an iteration
  DurationNs total_ns = 0;    // over all members, likewise
};

struct Symptoms {
  std::vector<Suspect> suspects;  // largest factor first; empty: nobody is slow
  std::vector<Waiting> waiting;   // most waiting of a communicator first
};

// `ranks` and `waits_ns` as in ReplayResult. Of the graph only who does the same work and who is in
// which communicator is used.
Symptoms FindStraggler(const graph::Graph& graph,
                       const std::vector<RankTimes>& ranks,
                       const std::vector<DurationNs>& waits_ns);

}  // namespace prism::replayer
