// How long one transformer layer, and the head, keep the compute stream busy in both passes of a
// micro-batch: the part of an iteration that no schedule can hide. From the blocks that
// slicer/synthesize/ writes, folded as replayer/stages/ folds them.
#pragma once

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"

namespace prism::launch {

struct BusyTimes {
  DurationNs layer = 0;  // of the layer that takes least
  DurationNs head = 0;
};

// Communicators are assumed to be placed on nodes like those of the first ranks, or on one node if
// stages are not whole nodes.
Result<BusyTimes> FindBusyTimes(const graph::JobSpec& job,
                                const graph::TrainingStyle& style,
                                const graph::ClusterSpec& cluster);

}  // namespace prism::launch
