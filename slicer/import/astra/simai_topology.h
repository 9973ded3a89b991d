// SimAI's topology files (gen_Topo_Template.py): a count of everything, the switches, then one line
// per link. GPUs come first and fill servers in order; the switches inside servers come next.
//
//   42 8 4 6 200 H100                # nodes, GPUs/server, NVSwitches, other switches, links, GPU
//   32 33 34 35 36 37 38 39 40 41    # switches
//   0 32 2880Gbps 0.000025ms 0       # from, to, bandwidth, latency, error rate
//   0 36 400Gbps 0.0005ms 0
//
// Only what an AstraNetwork holds is read: GPUs of a server and servers, and the bandwidth and
// latency of one GPU to either.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "slicer/import/astra/network_file.h"

namespace prism::slicer {

// Whether the text begins like such a file.
bool IsSimAiTopology(std::string_view text);

// kBadFile: "<file>:<line>: ...".
Result<AstraNetwork> ParseSimAiTopology(std::string_view text, const std::string& file);

}  // namespace prism::slicer
