#include "graph/program/job_groups.h"

#include <algorithm>

#include <fmt/format.h>

namespace prism::graph {

JobGroups::JobGroups(const ParallelSizes& sizes, int32_t shard_size)
    : sizes_(sizes),
      shard_(shard_size > 0 ? shard_size : sizes.cp * sizes.dp),
      stage_ranks_(sizes.tp * sizes.cp * sizes.dp) {
}

JobGroups::Shape JobGroups::ShapeOf(GroupAxis axis) const {
  const int32_t tp = sizes_.tp;
  const int32_t experts = sizes_.etp * sizes_.ep;
  const Progression one;
  switch (axis) {
    case GroupAxis::kTensor:
      return {Progression{1, tp}, one};
    case GroupAxis::kContext:
      return {Progression{tp, sizes_.cp}, one};
    case GroupAxis::kData:
      return {Progression{tp * sizes_.cp, sizes_.dp}, one};
    case GroupAxis::kDataContext:
      return {Progression{tp, sizes_.cp * sizes_.dp}, one};
    case GroupAxis::kExpert:
      return {Progression{sizes_.etp, sizes_.ep}, one};
    case GroupAxis::kExpertData:
      return {Progression{experts, stage_ranks_ / experts}, one};
    case GroupAxis::kTensorExpert:
      return {Progression{1, experts}, one};
    case GroupAxis::kShard:
      return {Progression{tp, shard_}, one};
    case GroupAxis::kReplicate:
      return {Progression{tp * shard_, sizes_.cp * sizes_.dp / shard_}, one};
    case GroupAxis::kPipeline:
    case GroupAxis::kPipelineForward:
    case GroupAxis::kPipelineBackward:
      return {Progression{stage_ranks_, sizes_.pp}, one};
    case GroupAxis::kEmbedding:
      return {Progression{stage_ranks_ * (sizes_.pp - 1), sizes_.pp > 1 ? 2 : 1}, one};
    case GroupAxis::kModel:
      return {Progression{1, tp}, Progression{stage_ranks_, sizes_.pp}};
    case GroupAxis::kWorld:
      return {Progression{1, stage_ranks_ * sizes_.pp}, one};
  }
  return {one, one};
}

int32_t JobGroups::Size(GroupAxis axis) const {
  const Shape shape = ShapeOf(axis);
  return shape[0].count * shape[1].count;
}

Rank JobGroups::LowestMember(GroupAxis axis, Rank rank) const {
  auto lowest = static_cast<int32_t>(rank.value());
  for (const Progression& part : ShapeOf(axis)) {
    if (part.count > 1) {
      lowest -= static_cast<int32_t>(rank.value()) / part.stride % part.count * part.stride;
    }
  }
  return Rank(static_cast<uint32_t>(lowest));
}

std::vector<Rank> JobGroups::Members(GroupAxis axis, Rank rank) const {
  const Shape shape = ShapeOf(axis);
  const auto lowest = static_cast<int32_t>(LowestMember(axis, rank).value());
  std::vector<Rank> members;
  members.reserve(static_cast<size_t>(shape[0].count) * static_cast<size_t>(shape[1].count));
  for (int32_t j = 0; j < shape[1].count; ++j) {
    for (int32_t i = 0; i < shape[0].count; ++i) {
      members.emplace_back(
          static_cast<uint32_t>(lowest + j * shape[1].stride + i * shape[0].stride));
    }
  }
  return members;
}

// Within a stage, a communicator of the first progression is one of `stride` interleaved ones, and
// a stage may hold several such runs; the second progression leaves the stage. Communicators that
// begin at the same place within a node are placed in the same way. So are all interleaved ones if
// each member is on its own node, or if those next to each other are always on one node.
std::vector<Rank> JobGroups::OneByPlace(GroupAxis axis,
                                        int32_t stage,
                                        int32_t gpus_per_node) const {
  const Progression part = ShapeOf(axis)[0];
  const int32_t interleaved = std::clamp(part.stride, 1, stage_ranks_);
  const int32_t run = interleaved * std::min(part.count, stage_ranks_ / interleaved);
  std::vector<Rank> ranks;
  for (int32_t r = 0; r < std::min(stage_ranks_ / run, gpus_per_node); ++r) {
    const int32_t first = stage * stage_ranks_ + r * run;
    const bool alike =
        part.stride > 0 && (part.stride % gpus_per_node == 0 ||
                            (gpus_per_node % part.stride == 0 && first % part.stride == 0));
    for (int32_t i = 0; i < (alike ? 1 : std::min(interleaved, gpus_per_node)); ++i) {
      ranks.emplace_back(static_cast<uint32_t>(first + i));
    }
  }
  return ranks;
}

int32_t JobGroups::StageOf(Rank rank) const {
  return static_cast<int32_t>(rank.value()) / stage_ranks_;
}

Status CheckGroups(const ParallelSizes& sizes, int32_t shard_size) {
  if (sizes.tp < 1 || sizes.cp < 1 || sizes.dp < 1 || sizes.pp < 1 || sizes.ep < 1 ||
      sizes.etp < 1 || sizes.vpp < 1) {
    return InvalidArgument("every degree of parallelism must be at least 1");
  }
  const int32_t stage_ranks = sizes.tp * sizes.cp * sizes.dp;
  if (stage_ranks % (sizes.etp * sizes.ep) != 0) {
    return InvalidArgument(fmt::format("ep {} with etp {} does not divide the {} ranks of a stage",
                                       sizes.ep, sizes.etp, stage_ranks));
  }
  if (shard_size > 0 && (sizes.cp * sizes.dp) % shard_size != 0) {
    return InvalidArgument(fmt::format("shards over {} ranks do not divide dp {} times cp {}",
                                       shard_size, sizes.dp, sizes.cp));
  }
  return OkStatus();
}

}  // namespace prism::graph
