// An edit seen from one lane: the ranks that the edit affects, their durations, and where in the
// schedule these first matter.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "replayer/cost/compute_cost.h"
#include "replayer/delta/baseline.h"
#include "replayer/delta/edit.h"
#include "replayer/engine/placement.h"
#include "replayer/perturb/rank_effects.h"

namespace prism::replayer {

// The job that was recorded, as far as variants need it.
struct RecordedJob {
  const graph::Graph& graph;
  const ReplayOptions& options;
  const Partition& partition;
  const RecordedOrder& schedule;
  const Baseline& baseline;
  double overlap_slowdown = 1;
  const std::vector<std::vector<std::vector<uint32_t>>>& ranks_of;  // by class and lane
};

struct Variant {
  uint32_t class_index = 0;
  uint32_t lane = 0;
  std::vector<uint32_t> ranks;
  LaneCosts costs;
  std::vector<uint32_t> changed;  // actions whose duration differs, ascending
  bool other_transfers = false;   // durations of transfers differ, too

  // Owner of what `costs` points to, where that is not the baseline's.
  std::unique_ptr<graph::Program> program;
  std::unique_ptr<RolePlan> plan;
  std::unique_ptr<TransferCosts> transfers;
  std::unique_ptr<std::vector<DurationNs>> charges;
};

// Ranks whose durations are unchanged are in no variant.
std::vector<Variant> MakeVariants(const RecordedJob& job, const Edit& edit);

}  // namespace prism::replayer
