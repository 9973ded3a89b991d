// ASTRA-sim's network files: how many ranks each dimension has, and how fast it is.
//
//   topology: [ Ring, Switch ]      # analytical backend
//   npus_count: [ 8, 16 ]           # the first dimension is the fastest
//   bandwidth: [ 400.0, 50.0 ]      # GB/s, of one rank; a GB is 2^30 byte (bw_GBps_to_Bpns there)
//   latency: [ 936.25, 500.0 ]      # ns
//
// or {"logical-dims": ["8", "16"]} (ns-3 backend), which has no rates, or in the keys of ASTRA-sim
// 1.0: "topologies-per-dim", "units-count", "links-count", "link-bandwidth", "link-latency".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::slicer {

struct AstraNetwork {
  std::vector<std::string> topology;  // "Ring", "FullyConnected", "Switch"; may be empty
  std::vector<int64_t> ranks;         // by dimension
  std::vector<double> bandwidth;      // byte/s; may be empty
  std::vector<double> latency;        // seconds; may be empty
  int64_t ignored = 0;                // keys that do not act here
};

// kBadFile: "<file>:<line>: ...".
Result<AstraNetwork> ParseAstraNetwork(std::string_view text, const std::string& file);

// Writes the network as a file for ASTRA-sim's analytical backend.
std::string AstraNetworkText(const AstraNetwork& network);

}  // namespace prism::slicer
