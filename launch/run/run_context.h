// What every stage of a run reads and none changes: the job, the cluster, the plan and where our
// programs lie. Made once in main, equal in all processes.
#pragma once

#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/log.h"
#include "graph/cluster.h"
#include "graph/job.h"
#include "launch/options/options.h"
#include "launch/process/sandbox.h"
#include "slicer/plan.h"

namespace prism::launch {

struct RunContext {
  Options options;
  graph::JobSpec job;
  graph::ClusterSpec cluster;
  std::string layout_origin;
  slicer::SlicePlan plan;
  std::vector<Rank> sandbox_ranks;  // ascending
  std::vector<Rank> log_ranks;      // output shown live
  std::vector<Rank> traced_ranks;   // ascending; whose timelines go into trace.pftrace
  InstallPaths paths;
  Logger logger;
};

// How one rank is to be run in a pass.
struct SandboxRequest {
  Rank rank;
  channel::Mode mode = channel::Mode::kRecord;
  std::vector<Rank> present;  // ranks that run together, this one included
  int iterations = 1;
  std::string exchange;  // shared memory of several present ranks; "" with one
};

// Program, arguments, environment and channel of a rank. The environment is the one that torchrun
// would give it at the target's size.
SandboxSpec MakeSandboxSpec(const RunContext& context, const SandboxRequest& request);

}  // namespace prism::launch
