// Folded runs of kernels: where a stream's tail is late enough, a whole run is one addition.
//
// The run's ops i..j, issued at base + h_k with durations d_k, leave no gap when the stream is busy
// until `tail` with tail + d_i + ... + d_{k-1} >= base + h_k for every k. With prefix sums P that
// is tail - P_i - base >= max over k of (h_k - P_k), one comparison. With or without a gap the run
// ends at max(tail - P_i, base + max over k of (h_k - P_k)) + P_{j+1}. The host never waits inside
// a run.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/time.h"

namespace prism::replayer {

struct RolePlan;

// Of one stream of a plan.
struct RunFold {
  std::vector<DurationNs> before;  // by step, and after the last: sum of durations before it
  std::vector<DurationNs> lead;    // by step: max over the rest of its run of host_ns - before
  std::vector<uint32_t> run_end;   // by step: after the run of compute that it is part of
};

std::vector<RunFold> FoldRuns(const RolePlan& plan);

}  // namespace prism::replayer
