// On which nodes of a shared network jobs run: what a scheduler makes of several jobs, whole nodes
// each. --placement of `prism replay`, and `policy` in [placement] of an edit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/graph.h"

namespace prism::launch {

enum class PlacementPolicy : uint8_t {
  kPacked,      // each job on consecutive nodes, one behind the other
  kRandom,      // the nodes of all jobs, shuffled by the seed
  kFragmented,  // jobs take turns, node by node; one alone has every second node
};
inline constexpr EnumNames<PlacementPolicy, 3> kPlacementNames = {
    {{PlacementPolicy::kPacked, "packed"},
     {PlacementPolicy::kRandom, "random"},
     {PlacementPolicy::kFragmented, "fragmented"}}};

// By job: its nodes, in the order in which its ranks fill them. `sizes`: nodes of each job.
std::vector<std::vector<uint32_t>> NodesOfJobs(PlacementPolicy policy,
                                               const std::vector<uint32_t>& sizes,
                                               uint64_t seed);

// How many nodes the graph's ranks fill.
uint32_t NodesOf(const graph::Graph& graph);

// By rank of the graph: its GPU on those nodes.
std::vector<uint32_t> GpusOnNodes(const graph::Graph& graph, const std::vector<uint32_t>& nodes);

}  // namespace prism::launch
