// The timelines of some ranks as a native Perfetto trace (.pftrace), readable by ui.perfetto.dev
// and by its trace processor.
//
// One process per rank ("rank 3: stage 0"), one thread track per stream plus one for the host
// thread. Slices carry the kernel's or the collective's name; a collective's slice extends from its
// arrival to its end and contains a slice "transfer" for the part in which data moved. Arrows
// (flows) connect the slices of one collective, or of a send and its receive, among the traced
// ranks.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

// `timelines` as ReplayResult::timelines. The same input always gives the same bytes.
std::string EncodePerfetto(const graph::Graph& graph, const std::vector<Timeline>& timelines);

// Writes the trace to `path`. kEnvironment or kRunFailed when that fails.
Status WritePerfetto(const graph::Graph& graph,
                     const std::vector<Timeline>& timelines,
                     const std::string& path);

}  // namespace prism::replayer
