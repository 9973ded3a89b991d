// From what the recorded ranks of a user's program did to the job that it is.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "launch/run/run_context.h"
#include "slicer/probe/prober.h"

namespace prism::launch {

// Iterations in a row that can be emulated.
struct IterationRange {
  int32_t begin = 0;
  int32_t count = 0;  // 0: there is none
};

// The first that a rank ran, from number `begin` on, without one that is odd.
IterationRange AlikeFrom(const graph::Fragment& fragment, int32_t begin);

slicer::ProbeOptions MakeProbeOptions(const RunContext& context);

// Layout, roles and the ranks that were named by them; no more iterations than the program has.
// Says on stderr what was found. Fails when the ranks' options do not fit the layout.
Status SettleProgram(const slicer::ProbeStep& found,
                     const std::vector<graph::Fragment>& fragments,
                     RunContext* context);

}  // namespace prism::launch
