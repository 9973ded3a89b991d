// Whether what was asked for changes anything: a rank that is late before the first iteration may
// have caught up by the one that the numbers are of, a slow link may lie on nobody's way.
#pragma once

#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/replay.h"

namespace prism::replayer {

inline constexpr const char* kNoEffectCode = "perturbation_without_effect";

// A warning where perturbations leave the steady iteration as it is without them, to the nanosecond
// and on all ranks: `with` is Replay(graph, options), `options` with ReplayOptions::breakdown.
// Costs a replay a perturbation, two of one without effect; of more than 16 perturbations those of
// a kind are left out together.
Result<std::vector<graph::Warning>> WarnOfNoEffect(const graph::Graph& graph,
                                                   const ReplayOptions& options,
                                                   const ReplayResult& with);

// The same where nobody has replayed the job yet.
Result<std::vector<graph::Warning>> WarnOfNoEffect(const graph::Graph& graph,
                                                   ReplayOptions options);

}  // namespace prism::replayer
