// What one transformer layer, and the head, keep the compute stream busy for, both passes of a
// micro-batch: the part of an iteration that no schedule can hide. From the blocks that
// slicer/synthesize/ writes, folded as replayer/stages/ folds them.
#pragma once

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/job.h"
#include "graph/training_style.h"

namespace prism::launch {

struct BusyTimes {
  DurationNs layer = 0;  // of the one that takes least
  DurationNs head = 0;
};

// Communicators are taken to lie on nodes as those of the first ranks do, on one node where stages
// are not whole nodes.
Result<BusyTimes> FindBusyTimes(const graph::JobSpec& job,
                                const graph::TrainingStyle& style,
                                const graph::ClusterSpec& cluster);

}  // namespace prism::launch
