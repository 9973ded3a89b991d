// What the matrix units of a GPU could do at most.
#pragma once

#include "graph/cluster.h"
#include "graph/training_style.h"

namespace prism::launch {

// Dense peak of one GPU for matrix products in that format, FLOP/s; the nearest wider format's
// where the GPU lacks it.
double PeakFlops(const graph::ClusterSpec& cluster, graph::Precision precision);

}  // namespace prism::launch
