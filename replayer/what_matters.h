// What would shorten the iteration: a causal profile. One part of the job after the other is made a
// tenth faster, and the whole job replayed, so that the answer contains everything that follows:
// who then waits for whom, where nothing comes of it, and where the iteration even gets longer.
//
// Every time is a maximum or a sum of earlier ones, so nothing ends later when something takes
// less. The iteration can get longer all the same, because it is the distance between two
// beginnings: the first may move further than the second, or other kernels may now decide on which
// stream it is counted (RolePlan::first_stream).
//
// A replay by classes of ranks costs milliseconds, so that each part gets one; parts with the same
// ops (the only role of a stage) share it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/replay_options.h"

namespace prism::replayer {

enum class PartKind : uint8_t {
  kFamily,         // kernels and copies whose time one rule of the cost model gives (CostReport)
  kKernel,         // kernels of one name
  kLayer,          // what runs inside the markers of one layer
  kStage,          // kernels and copies of a pipeline stage
  kRole,           // the same of a role
  kHost,           // what the hosts of a pipeline stage issue, and their sleeps
  kCommunicators,  // transfers of all communicators of one name
  kCommunicator,   // transfers of one communicator
  kLink,           // transfers inside nodes; transfers between them
};
inline constexpr size_t kPartKinds = 9;

// "kernels", "kernel", "layer", "stage", "role", "host", "communicators", "communicator", "link".
const char* PartKindName(PartKind kind);

struct JobPart {
  PartKind kind = PartKind::kFamily;
  std::string name;
  uint32_t index = 0;      // among the parts of its kind
  DurationNs busy_ns = 0;  // in an iteration, on the rank where it is longest
};

inline constexpr double kFasterFactor = 0.9;

struct FasterPart {
  JobPart part;
  DurationNs iteration_ns = 0;  // a steady one, with the part that much faster
  DurationNs saved_ns = 0;      // below 0: it harms
  // Of what it would save if the busiest rank's time in it were on the critical path, once: more
  // than 1 where the path goes through it on several ranks.
  double share = 0;
};

struct WhatMatters {
  DurationNs iteration_ns = 0;    // as it is
  std::vector<FasterPart> parts;  // by saving, largest first, then by name
  int64_t left_out = 0;           // parts that take less time than these
};

// The same for any number of options.threads. Of single communicators the 16 in which ranks spend
// most time are tried, of all parts `most`.
Result<WhatMatters> FindWhatMatters(const graph::Graph& graph,
                                    const ReplayOptions& options,
                                    size_t most = 200);

}  // namespace prism::replayer
