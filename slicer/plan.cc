#include "slicer/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/rng.h"
#include "graph/parallel_layout.h"

namespace prism::slicer {
namespace {

using graph::Axis;
using graph::Coordinates;

// How many of tp, cp and dp a rank does not share with the representative of its stage, which has
// coordinate 0 on each.
int DistanceFromRepresentative(const Coordinates& coordinates) {
  int distance = 0;
  for (const Axis axis : {Axis::kTp, Axis::kCp, Axis::kDp}) {
    distance += coordinates[static_cast<size_t>(axis)] != 0 ? 1 : 0;
  }
  return distance;
}

Status CheckSizes(const graph::ParallelSizes& sizes) {
  if (sizes.tp < 1 || sizes.cp < 1 || sizes.dp < 1 || sizes.pp < 1 || sizes.vpp < 1) {
    return InvalidArgument("every degree of parallelism must be at least 1");
  }
  if (sizes.ep != 1) {
    return InvalidArgument(fmt::format(
        "expert parallelism is not supported yet (ep {}); use --ep 1 and a larger --dp", sizes.ep));
  }
  constexpr int64_t kMaxRanks = int64_t{1} << 24;
  if (sizes.world_size() > kMaxRanks) {
    return InvalidArgument(
        fmt::format("{} ranks are more than the {} supported", sizes.world_size(), kMaxRanks));
  }
  return OkStatus();
}

// A coordinate other than 0 where the axis has one.
int32_t DrawOther(Rng& rng, int32_t size) {
  return size == 1 ? 0 : static_cast<int32_t>(rng.UniformInt(1, size - 1));
}

// Draws ranks that share no coordinate but the stage with their representative where the layout
// allows it, from stages as far apart as their number allows.
std::vector<Rank> DrawSpotChecks(const graph::ParallelLayout& layout,
                                 uint64_t seed,
                                 int32_t wanted) {
  const graph::ParallelSizes& sizes = layout.sizes();
  const int64_t others = sizes.world_size() - sizes.pp;
  const auto count = static_cast<int32_t>(std::min<int64_t>(wanted, others));
  Rng rng(seed, "spot checks");
  const auto first_stage = static_cast<int32_t>(rng.UniformInt(0, sizes.pp - 1));
  std::vector<Rank> drawn;
  // A layout with few other ranks gives the same one again; then the nearest free one is taken.
  for (int32_t i = 0; i < count; ++i) {
    const int32_t step = static_cast<int32_t>(int64_t{i} * sizes.pp / count);
    const int32_t stage = (first_stage + step) % sizes.pp;
    Rank rank = layout.RankAt(
        {DrawOther(rng, sizes.tp), DrawOther(rng, sizes.cp), DrawOther(rng, sizes.dp), stage});
    while (DistanceFromRepresentative(layout.CoordinatesOf(rank)) == 0 ||
           std::find(drawn.begin(), drawn.end(), rank) != drawn.end()) {
      rank = Rank((rank.value() + 1) % static_cast<uint32_t>(layout.world_size()));
    }
    drawn.push_back(rank);
  }
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

}  // namespace

std::vector<Rank> SlicePlan::RecordedRanks() const {
  std::vector<Rank> ranks = spot_checks;
  for (const PlannedRole& role : roles) {
    ranks.push_back(role.representative);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Result<SlicePlan> MakePlan(const graph::JobSpec& job, const PlanOptions& options) {
  PRISM_RETURN_IF_ERROR(CheckSizes(job.parallel));
  if (options.spot_checks < 0) {
    return InvalidArgument("the number of spot checks is negative");
  }
  if (job.parallel.pp > options.max_roles) {
    return InvalidArgument(
        fmt::format("{} pipeline stages need as many roles, but --max-roles is {}; raise it",
                    job.parallel.pp, options.max_roles));
  }
  const graph::ParallelLayout layout(job.parallel);
  SlicePlan plan;
  for (int32_t stage = 0; stage < job.parallel.pp; ++stage) {
    plan.roles.push_back({fmt::format("stage {}", stage), stage, layout.RankAt({0, 0, 0, stage})});
  }
  plan.role_of.resize(static_cast<size_t>(layout.world_size()));
  for (uint32_t rank = 0; rank < plan.role_of.size(); ++rank) {
    const int32_t stage = layout.CoordinatesOf(Rank(rank))[static_cast<size_t>(Axis::kPp)];
    plan.role_of[rank] = static_cast<uint32_t>(stage);
  }
  plan.spot_checks = DrawSpotChecks(layout, job.seed, options.spot_checks);
  return plan;
}

}  // namespace prism::slicer
