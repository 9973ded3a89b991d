// Which ranks are run for real to record the job, and which role every rank gets.
//
// For the built-in workload the layout determines the roles: a rank's program depends only on its
// pipeline stage (1F1B gives every stage its own warm-up depth), because shards along tp, cp and dp
// are padded to equal sizes and experts take equal numbers of tokens. The lowest rank of each stage
// is the representative; a few further ranks, drawn by the seed, are recorded as spot checks and
// must turn out equal to their role.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/job/job.h"

namespace prism::slicer {

struct PlannedRole {
  std::string name;  // "stage 3"
  int32_t stage = 0;
  Rank representative;
};

struct SlicePlan {
  std::vector<PlannedRole> roles;  // by first representative
  std::vector<uint32_t> role_of;   // by rank, index into roles
  std::vector<Rank> spot_checks;   // ascending, none is a representative
  // Axes of the grid along which ranks of one role communicate alike but compute or allocate
  // differently; a rank that was not recorded and has a different coordinate there than its
  // representative is only similar to it.
  std::vector<size_t> approximated_axes;

  // Representatives and spot checks, ascending: what has to be recorded.
  [[nodiscard]] std::vector<Rank> RecordedRanks() const;
};

struct PlanOptions {
  int32_t max_roles = 256;
  int32_t spot_checks = 2;  // extra ranks; fewer where the job has no others
};

// Depends on job and seed only, never on the number of processes.
Result<SlicePlan> MakePlan(const graph::JobSpec& job, const PlanOptions& options);

}  // namespace prism::slicer
