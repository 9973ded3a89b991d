// What the recorded ranks' kernels, copies and memsets take on this machine's GPU
// (--record-device). One rank of each role runs once more, alone on the GPU, held nowhere; each op
// is compared with the graph, and CUPTI's times of several steady iterations
// (shim/gpu/kernel_times.h) and what the host took between its calls, which --host-time measured
// uses, go into the graph (replayer/cost/measured_kernels.h).
#pragma once

#include <functional>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/emulate/run/run_context.h"

namespace prism::launch {

// Puts the times into the graph, and how many there are into its assumptions. A role whose rank
// does not run to the end there, because it does not fit the GPU or does something else, keeps the
// model's and is in a warning. `meeting`: the values that a rank was given when it was recorded.
Status TakeGpuTimes(const RunContext& context,
                    const std::function<MeetingPoint(Rank)>& meeting,
                    graph::Graph* graph);

}  // namespace prism::launch
