#include "replayer/stages/stage_topologies.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/base/intern.h"

namespace prism::replayer {
namespace {

using graph::GroupAxis;

std::vector<uint32_t> Numbers(const std::vector<Rank>& ranks) {
  std::vector<uint32_t> numbers;
  numbers.reserve(ranks.size());
  for (const Rank rank : ranks) {
    numbers.push_back(rank.value());
  }
  return numbers;
}

// Whether `a` is the slower layout on nodes: more nodes, then fewer ranks on each.
bool Slower(const CommTopology& a, const CommTopology& b) {
  return a.nodes != b.nodes ? a.nodes > b.nodes : a.fewest_per_node() < b.fewest_per_node();
}

}  // namespace

StageTopologies::StageTopologies(const graph::ParallelSizes& sizes,
                                 int32_t shard_size,
                                 int32_t gpus_per_node,
                                 const std::vector<bool>& used)
    : groups_(sizes, shard_size), stages_(sizes.pp), gpus_per_node_(gpus_per_node) {
  // If stages are whole nodes, the groups of all stages are placed on them in the same way.
  const bool whole_nodes = groups_.ranks_per_stage() % gpus_per_node == 0;
  ByAxis by_axis;
  for (int32_t stage = 0; stage < stages_; ++stage) {
    const bool as_before = stage > 0 && whole_nodes && uneven_.empty();
    for (uint16_t a = 0; a < graph::kGroupAxisCount; ++a) {
      const auto axis = static_cast<GroupAxis>(a);
      if (used[a] && (!as_before || axis == GroupAxis::kEmbedding)) {
        by_axis[a] = TopologyOfAxis(axis, stage);
      }
    }
    kind_of_stage_.push_back(InternValue(kinds_, by_axis));
  }
}

CommTopology StageTopologies::TopologyOfAxis(GroupAxis axis, int32_t stage) {
  if (axis == GroupAxis::kEmbedding && stage != 0 && stage != stages_ - 1) {
    return {};
  }
  CommTopology slowest;
  bool uneven = false;
  // Groups that begin at the same position in a node are placed on nodes in the same way.
  std::vector<bool> seen(static_cast<size_t>(gpus_per_node_));
  const std::vector<Rank> ranks = groups_.OneByPlace(axis, stage, gpus_per_node_);
  for (const Rank rank : ranks) {
    const size_t place =
        groups_.LowestMember(axis, rank).value() % static_cast<uint32_t>(gpus_per_node_);
    if (seen[place]) {
      continue;
    }
    seen[place] = true;
    const CommTopology topology = TopologyOf(Numbers(groups_.Members(axis, rank)), gpus_per_node_);
    const bool is_first = rank == ranks.front();
    uneven = uneven || (!is_first && topology != slowest);
    if (is_first || Slower(topology, slowest)) {
      slowest = topology;
    }
  }
  if (uneven) {
    NoteUneven(fmt::format("{} of stage {}", graph::GroupAxisName(axis), stage));
  }
  return slowest;
}

bool StageTopologies::OnNode(int32_t from_stage, int32_t to_stage) {
  const int32_t stage_ranks = groups_.ranks_per_stage();
  int32_t together = 0;  // 0 if stages are whole nodes
  for (int32_t r = 0; r < stage_ranks && stage_ranks % gpus_per_node_ != 0; ++r) {
    const int32_t from = from_stage * stage_ranks + r;
    const int32_t to = to_stage * stage_ranks + r;
    together += from / gpus_per_node_ == to / gpus_per_node_ ? 1 : 0;
  }
  if (together != 0 && together != stage_ranks) {
    NoteUneven(fmt::format("messages from stage {} to {}", from_stage, to_stage));
  }
  return together == stage_ranks;
}

void StageTopologies::NoteUneven(std::string family) {
  const auto place = std::ranges::lower_bound(uneven_, family);
  if (place == uneven_.end() || *place != family) {
    uneven_.insert(place, std::move(family));
  }
}

}  // namespace prism::replayer
