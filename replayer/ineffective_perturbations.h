// Whether the requested perturbations change anything: a rank that is late before the first
// iteration may have caught up by the iteration that is reported; a slow link may be on nobody's
// path.
#pragma once

#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/engine/replay_options.h"

namespace prism::replayer {

struct ReplayResult;

inline constexpr const char* kNoEffectCode = "perturbation_without_effect";

// Warns of perturbations without which the steady iteration is the same, to the nanosecond and on
// all ranks: `with` is Replay(graph, options), where `options` has ReplayOptions::breakdown. Costs
// one replay per perturbation, two for one without effect; if there are more than 16, all
// perturbations of one kind are tested together.
Result<std::vector<graph::Warning>> WarnOfNoEffect(const graph::Graph& graph,
                                                   const ReplayOptions& options,
                                                   const ReplayResult& with);

// The same if the job has not been replayed yet.
Result<std::vector<graph::Warning>> WarnOfNoEffect(const graph::Graph& graph,
                                                   ReplayOptions options);

}  // namespace prism::replayer
