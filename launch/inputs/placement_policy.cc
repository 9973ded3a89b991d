#include "launch/inputs/placement_policy.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/base/divide.h"
#include "graph/base/rng.h"

namespace prism::launch {

std::vector<std::vector<uint32_t>> NodesOfJobs(PlacementPolicy policy,
                                               const std::vector<uint32_t>& sizes,
                                               uint64_t seed) {
  std::vector<std::vector<uint32_t>> nodes(sizes.size());
  std::vector<uint32_t> free(std::accumulate(sizes.begin(), sizes.end(), 0U));
  std::iota(free.begin(), free.end(), 0U);
  if (policy == PlacementPolicy::kFragmented) {
    const uint32_t step = sizes.size() == 1 ? 2 : 1;
    for (uint32_t next = 0; next < free.size() * step;) {
      for (size_t job = 0; job < sizes.size(); ++job) {
        if (nodes[job].size() < sizes[job]) {
          nodes[job].push_back(next);
          next += step;
        }
      }
    }
    return nodes;
  }
  if (policy == PlacementPolicy::kRandom) {
    Rng rng(seed, "placement");
    for (size_t left = free.size(); left > 1; --left) {
      std::swap(free[left - 1],
                free[static_cast<size_t>(rng.UniformInt(0, static_cast<int64_t>(left) - 1))]);
    }
  }
  auto at = free.begin();
  for (size_t job = 0; job < sizes.size(); ++job) {
    nodes[job].assign(at, at + sizes[job]);
    at += sizes[job];
  }
  return nodes;
}

uint32_t NodesOf(const graph::Graph& graph) {
  return DivideUp(graph.ranks.size(), static_cast<uint32_t>(graph.cluster.gpus_per_node));
}

std::vector<uint32_t> GpusOnNodes(const graph::Graph& graph, const std::vector<uint32_t>& nodes) {
  const auto gpus = static_cast<uint32_t>(graph.cluster.gpus_per_node);
  std::vector<uint32_t> places;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    places.push_back(nodes[rank / gpus] * gpus + rank % gpus);
  }
  return places;
}

}  // namespace prism::launch
