#include "slicer/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/rng.h"
#include "graph/job/rank_grid.h"
#include "graph/validate/limits.h"

namespace prism::slicer {
namespace {

Status CheckSizes(const graph::ParallelSizes& sizes) {
  if (sizes.tp < 1 || sizes.cp < 1 || sizes.dp < 1 || sizes.pp < 1 || sizes.ep < 1 ||
      sizes.vpp < 1) {
    return InvalidArgument("every degree of parallelism must be at least 1");
  }
  if (sizes.dp % sizes.ep != 0) {
    return InvalidArgument(fmt::format("ep {} does not divide dp {}", sizes.ep, sizes.dp));
  }
  if (sizes.world_size() > graph::kMaxRanks) {
    return InvalidArgument(fmt::format("{} ranks are more than the possible {}", sizes.world_size(),
                                       graph::kMaxRanks));
  }
  return OkStatus();
}

// A coordinate other than 0 where the axis has one.
int32_t DrawOther(Rng& rng, int32_t size) {
  return size == 1 ? 0 : static_cast<int32_t>(rng.UniformInt(1, size - 1));
}

// A rank of that stage whose coordinates on all other axes differ from 0 where the axis allows it.
Rank DrawOfStage(const graph::RankGrid& grid, int32_t stage, Rng& rng) {
  Rank rank = grid.LowestOfStage(stage);
  for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
    if (grid.axes()[axis].name != "pp") {
      rank = grid.Moved(rank, axis, DrawOther(rng, grid.axes()[axis].size));
    }
  }
  return rank;
}

bool IsRepresentative(const graph::RankGrid& grid, Rank rank) {
  return rank == grid.LowestOfStage(grid.ParallelRankOf(rank).pp);
}

// Draws ranks that share only the stage coordinate with their representative, if the layout allows
// it, from stages as far apart as their number allows.
std::vector<Rank> DrawSpotChecks(const graph::JobSpec& job, int32_t wanted) {
  const graph::RankGrid grid = graph::RankGrid::Of(job);
  const int32_t stages = job.parallel.pp;
  const int64_t others = job.parallel.world_size() - stages;
  const auto count = static_cast<int32_t>(std::min<int64_t>(wanted, others));
  Rng rng(job.seed, "spot checks");
  const auto first_stage = static_cast<int32_t>(rng.UniformInt(0, stages - 1));
  std::vector<Rank> drawn;
  // In a layout with few other ranks the same one may be drawn again; then the nearest free one is
  // taken.
  for (int32_t i = 0; i < count; ++i) {
    const int32_t step = static_cast<int32_t>(int64_t{i} * stages / count);
    Rank rank = DrawOfStage(grid, (first_stage + step) % stages, rng);
    while (IsRepresentative(grid, rank) || std::ranges::find(drawn, rank) != drawn.end()) {
      rank = Rank((rank.value() + 1) % grid.world_size());
    }
    drawn.push_back(rank);
  }
  std::ranges::sort(drawn);
  return drawn;
}

}  // namespace

std::vector<Rank> SlicePlan::RecordedRanks() const {
  std::vector<Rank> ranks = spot_checks;
  for (const PlannedRole& role : roles) {
    ranks.push_back(role.representative);
  }
  std::ranges::sort(ranks);
  return ranks;
}

Result<SlicePlan> MakePlan(const graph::JobSpec& job, const PlanOptions& options) {
  PRISM_RETURN_IF_ERROR(CheckSizes(job.parallel));
  if (options.spot_checks < 0) {
    return InvalidArgument("the number of spot checks is negative");
  }
  if (job.parallel.pp > options.max_roles) {
    return InvalidArgument(fmt::format(
        "{} pipeline stages need as many roles, but --max-roles is {}; raise --max-roles",
        job.parallel.pp, options.max_roles));
  }
  const graph::RankGrid grid = graph::RankGrid::Of(job);
  SlicePlan plan;
  for (int32_t stage = 0; stage < job.parallel.pp; ++stage) {
    plan.roles.push_back({fmt::format("stage {}", stage), stage, grid.LowestOfStage(stage)});
  }
  for (uint32_t rank = 0; rank < grid.world_size(); ++rank) {
    plan.role_of.push_back(static_cast<uint32_t>(grid.ParallelRankOf(Rank(rank)).pp));
  }
  plan.spot_checks = DrawSpotChecks(job, options.spot_checks);
  return plan;
}

}  // namespace prism::slicer
