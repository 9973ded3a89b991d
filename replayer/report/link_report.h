// The loads of a flow network's links, by kind of link and for the busiest ones.
#pragma once

#include <string>

#include "graph/base/json_writer.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

// By kind: how many carry something, their mean and largest load, and the ratio of the two; then
// the busiest links, with the share of an iteration for which they would be full.
std::string LinkLoadsText(const LinkLoads& loads);

// The same with every link.
void WriteLinkLoads(const LinkLoads& loads, JsonWriter* json);

}  // namespace prism::replayer
