// The comparisons with the recorded job that `prism replay` prints: an edit, and gains.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/inputs/options.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::launch {

// The job as recorded, and as edited by that file.
Result<std::string> EditDifference(const graph::Graph& graph,
                                   const replayer::ReplayOptions& options,
                                   const std::string& edit_file,
                                   OutputFormat format);

// The iteration time without each component, largest gain first.
Result<std::string> Gains(const graph::Graph& graph,
                          const replayer::ReplayOptions& options,
                          OutputFormat format);

}  // namespace prism::launch
