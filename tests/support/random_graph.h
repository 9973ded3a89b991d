// Random graphs that can run: for property tests of everything that reads a graph.
//
// A random global schedule is drawn event by event (a kernel on one rank, a collective on all
// members of a communicator, an exchange between two ranks, ...) and each event is appended to the
// programs of the ranks involved. Every wait therefore refers to something earlier in one common
// order: the graph matches and cannot stall, whatever was drawn.
//
// The schedule is drawn for `base_ranks` ranks, each a separate role, and the whole is repeated
// `copies` times: rank = base + base_ranks * copy (tp = base_ranks, dp = copies). A communicator is
// inside each copy or spans all copies, so roles of several ranks meet in collectives.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace prism::testing {

struct RandomGraphOptions {
  uint64_t seed = 0;
  int32_t base_ranks = 4;        // roles
  int32_t copies = 2;            // ranks a role
  int32_t events = 100;          // length of the schedule
  int32_t streams = 3;           // a rank
  int32_t families = 4;          // of communicators
  bool modelled_kernels = true;  // false: every kernel has a fixed duration
  bool fronts = false;           // some ranks wait for work before everything else
  bool grouped = true;           // some collectives form NCCL groups (kGroupedWithNext)
};

// The same options give the same graph.
graph::Graph RandomGraph(const RandomGraphOptions& options);

// Options drawn from a seed: small graphs of every shape, one rank and no copies included.
RandomGraphOptions RandomOptions(uint64_t seed);

}  // namespace prism::testing
