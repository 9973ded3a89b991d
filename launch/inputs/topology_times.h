// Times of other simulators: of collectives on a network that ASTRA-sim's files describe, as its
// analytical backend has them, and of the bubble that SimAI adds for a pipeline.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/import/astra/network_file.h"
#include "slicer/tasks/notes.h"

namespace prism::launch {

// Of ASTRA-sim's system file. Without one a collective goes in one piece, by the algorithm that
// suits the kind of each dimension.
struct AstraSystem {
  int64_t pieces = 1;      // of a collective (preferred-dataset-splits)
  int64_t at_once = 1;     // of them in a dimension (active-chunks-per-dimension)
  double endpoint_ns = 0;  // of a message (endpoint-delay)
  bool is_whole = false;   // an all_reduce is one in each dimension (collective-optimization)
  // Of compute nodes that say their work (Chakra); 0: not stated.
  double flops_per_s = 0;    // peak-perf
  double bytes_per_s = 0;    // local-mem-bw
  bool is_roofline = false;  // these count, whatever duration a node has (roofline-enabled)
  // By dimension: "ring", "direct" or "direct4", "halvingDoubling", "doubleBinaryTree"; with "one"
  // before it, one for all dimensions.
  std::map<graph::CollectiveKind, std::vector<std::string>> algorithms;
};

// kBadFile: what is wrong where. What does not act here is counted.
Result<AstraSystem> ParseAstraSystem(std::string_view text,
                                     const std::string& file,
                                     slicer::Notes* notes);

// Of one collective of the members: the time of its algorithm on the dimensions that they span. A
// message has the latency of its hops, which are two through a switch, and shares links with others
// of its collective; pieces that are not under way at once follow each other through the
// dimensions.
double SecondsOnTopology(const slicer::AstraNetwork& network,
                         const AstraSystem& system,
                         const graph::CollectiveShape& shape,
                         std::span<const uint32_t> members);

// Gives all collectives of the graph that time. Nothing without topologies and rates.
void UseTopologies(const slicer::AstraNetwork& network,
                   const AstraSystem& system,
                   graph::Graph* graph,
                   slicer::Notes* notes);

// Adds to the end of each rank's program that share of its kernels and of the collectives between
// them as time in which nothing runs; layers called embedding_layer are no part of it.
void AddPipelineBubble(double share, graph::Graph* graph, slicer::Notes* notes);

}  // namespace prism::launch
