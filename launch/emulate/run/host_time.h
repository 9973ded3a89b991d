// What the host of a recorded program spends an op: the mean over the ops that it issued, by the
// costs of their sorts.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/job/cluster.h"
#include "launch/emulate/run/run_context.h"
#include "launch/inputs/host_costs.h"

namespace prism::launch {

// Sets the host.* parameters of each kind of op that was issued to FACTOR × the mean of `costs`
// over all of the fragments' ops, and what the driver adds. Kinds that no rank issued, or that have
// no cost, keep their values.
void UseHostCosts(const HostCosts& costs,
                  const std::vector<graph::Fragment>& fragments,
                  double factor,
                  graph::ClusterSpec* cluster);

// The preset of host costs for a Python program, and why it is that one.
struct HostPreset {
  std::string name;
  std::string reason;  // "it has loaded deepspeed.runtime.engine"
};
HostPreset HostPresetOf(const std::vector<graph::Fragment>& fragments);

// --host-time, once the ranks are recorded: what the program took itself times a factor, or the
// costs of a file or preset on the cluster's CPU; unless told, those of HostPresetOf, if the
// cluster only assumes its constants. kBadFile or kInvalidArgument as PlanRun found for a file that
// has changed since.
Status UseHostTime(const std::vector<graph::Fragment>& fragments, RunContext* context);

}  // namespace prism::launch
