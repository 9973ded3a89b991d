// Derives the job from what the recorded ranks of a user's program did.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "launch/emulate/run/run_context.h"
#include "slicer/probe/prober.h"

namespace prism::launch {

// Consecutive iterations that can be emulated.
struct IterationRange {
  int32_t begin = 0;
  int32_t count = 0;  // 0: there is none
};

// The first ones that rank 0, whose fragment comes first, ran from number `begin` on, and that are
// odd for no rank.
IterationRange AlikeFrom(const std::vector<graph::Fragment>& fragments, int32_t begin);

slicer::ProbeOptions MakeProbeOptions(const RunContext& context);

// By rank: one iteration of each kind that differs from the recorded one.
using OddFragments = std::map<Rank, std::vector<graph::Fragment>>;

// Sets layout, roles, the ranks that were named through these, and at most as many iterations as
// the program has. Reports on stderr what was found. Fails when the ranks' options do not fit the
// layout.
Status SettleProgram(const slicer::ProbeStep& found,
                     const std::vector<graph::Fragment>& fragments,
                     const OddFragments& odd,
                     RunContext* context);

}  // namespace prism::launch
