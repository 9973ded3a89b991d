// Which ranks represent the communicators of a stage (graph/program/job_groups.h).
#include "graph/program/job_groups.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace prism::graph {
namespace {

int32_t AnyOf(std::vector<int32_t> sizes) {
  return *rc::gen::elementOf(std::move(sizes));
}

// How communicators of those ranks are placed on nodes: numbers of members on one node after the
// other.
std::set<std::vector<int32_t>> PlacementsOf(const JobGroups& groups,
                                            GroupAxis axis,
                                            const std::vector<Rank>& ranks,
                                            int32_t gpus_per_node) {
  std::set<std::vector<int32_t>> placements;
  for (const Rank rank : ranks) {
    std::vector<int32_t> on_node;
    uint32_t node = 0;
    for (const Rank member : groups.Members(axis, rank)) {
      const uint32_t next = member.value() / static_cast<uint32_t>(gpus_per_node);
      if (on_node.empty() || next != node) {
        on_node.push_back(0);
      }
      node = next;
      ++on_node.back();
    }
    placements.insert(on_node);
  }
  return placements;
}

RC_GTEST_PROP(JobGroups, one_rank_by_place_is_placed_like_any, ()) {
  const std::vector<int32_t> few = {1, 2, 3, 4, 6, 8};
  ParallelSizes sizes;
  sizes.tp = AnyOf(few);
  sizes.cp = AnyOf({1, 2, 3});
  sizes.dp = AnyOf({1, 2, 3, 5, 8, 24});
  sizes.pp = AnyOf({1, 2, 3, 5});
  const int32_t gpus_per_node = AnyOf({1, 2, 3, 4, 6, 8, 16});
  const int32_t shard_size = AnyOf(few);
  sizes.etp = AnyOf(few);
  sizes.ep = AnyOf(few);
  RC_PRE(CheckGroups(sizes, shard_size).ok());
  const JobGroups groups(sizes, shard_size);
  const int32_t stage = *rc::gen::inRange(0, sizes.pp);
  std::vector<Rank> all;
  for (int32_t r = 0; r < groups.ranks_per_stage(); ++r) {
    all.emplace_back(static_cast<uint32_t>(stage * groups.ranks_per_stage() + r));
  }
  for (uint16_t a = 0; a < kGroupAxisCount; ++a) {
    const auto axis = static_cast<GroupAxis>(a);
    if (axis == GroupAxis::kEmbedding && stage != 0 && stage != sizes.pp - 1) {
      continue;
    }
    const std::vector<Rank> ranks = groups.OneByPlace(axis, stage, gpus_per_node);
    RC_ASSERT(ranks.size() <= static_cast<size_t>(gpus_per_node) * gpus_per_node);
    RC_ASSERT(PlacementsOf(groups, axis, ranks, gpus_per_node) ==
              PlacementsOf(groups, axis, all, gpus_per_node));
  }
}

}  // namespace
}  // namespace prism::graph
