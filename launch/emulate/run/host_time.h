// --host-time measured:FACTOR: uses the program's own time between its ops instead of the cluster's
// host costs.
#pragma once

#include <vector>

#include "graph/fragment.h"
#include "graph/job/cluster.h"

namespace prism::launch {

// Sets the host.* parameters of each kind of op that was measured to FACTOR × its mean over all
// fragments, marked as measured. Kinds that no rank issued keep their values. The real driver's
// part of a call is not included, since the virtual device takes its place.
void UseMeasuredHostTime(const std::vector<graph::Fragment>& fragments,
                         double factor,
                         graph::ClusterSpec* cluster);

}  // namespace prism::launch
