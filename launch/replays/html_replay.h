// `prism report RUN --html FILE`: a replay as one HTML file (replayer/report/html.h).
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/valid_graph.h"
#include "replayer/replay.h"

namespace prism::launch {

// Replays with one rank of each stage traced, and writes the file.
Status WriteHtmlReplay(const graph::LoadedGraph& loaded,
                       replayer::ReplayOptions options,
                       const std::string& path);

}  // namespace prism::launch
