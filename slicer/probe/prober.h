// Which ranks of a user's program are recorded, and which role every rank gets: from what the
// recorded ones did, in rounds.
//
// First only rank 0, whose values are given to ranks whose root does not run; then the last rank of
// the job, the ranks that the user named, and spot checks, whose groups give the grid
// (derive_grid.h). Then the second and the last rank along each axis. An axis along which all three
// do the same is neutral. One along which they communicate alike but compute or allocate
// differently (a sharded optimizer) does not split roles, unless it is short; its ranks that were
// not recorded are approximated. Where they address a few ranks by place (the root of a gather),
// those have separate roles and all others share one, if a sample of them does the same. Where all
// exchange with all, equal amounts with each rank of a class, some ranks of each class are
// recorded, and if these do the same the class is a role (exchange_classes.h). Along every other
// axis each coordinate is recorded, and those that do the same share a role; roles are the products
// over such axes.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/job/job.h"
#include "slicer/plan.h"

namespace prism::slicer {

struct ProbeOptions {
  graph::ParallelSizes given;  // what the user specified; dp is the rest
  std::vector<Rank> named;     // sandbox ranks, ascending
  uint64_t seed = 0;
  int32_t max_roles = 256;
  int32_t spot_checks = 2;
};

struct ProbeStep {
  std::vector<Rank> record;  // ascending, not recorded yet; empty: `plan` and `axes` are final
  SlicePlan plan;
  std::vector<graph::GridAxis> axes;
};

// Depends only on options and fragments. Fails when the groups form no grid, and when there are
// more roles than allowed, naming the axes that cause them.
Result<ProbeStep> NextProbe(const ProbeOptions& options,
                            const std::vector<graph::Fragment>& fragments);

}  // namespace prism::slicer
