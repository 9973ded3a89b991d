// Odd iterations (a checkpoint every tenth step, an evaluation, a log line): what each kind takes.
// One of each kind was recorded on all recorded ranks; they are joined to a graph like the steady
// one, which is proved and replayed as if all iterations were such.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/fragment.h"
#include "graph/graph.h"
#include "launch/emulate/run/recorded_slice.h"
#include "launch/emulate/run/run_context.h"
#include "replayer/engine/replay_options.h"
#include "replayer/report/summary.h"

namespace prism::launch {

// The distance of the iterations, if they are equally far apart; null for one alone.
std::optional<int64_t> EveryOf(const std::vector<int32_t>& numbers);

// `steady_ns`: of the steady iteration, replayed with the same options. What keeps a kind from
// being timed becomes a warning "odd_iteration_untimed".
std::vector<replayer::OddIteration> TimeOddIterations(const RunContext& context,
                                                      const RecordedSlice& slice,
                                                      const replayer::ReplayOptions& options,
                                                      DurationNs steady_ns,
                                                      std::vector<graph::Warning>* warnings);

}  // namespace prism::launch
