// A small invented cluster with every parameter that the cost models read.
#pragma once

#include "graph/job/cluster.h"

namespace prism::testing {

// Round numbers, two GPUs per node, host costs of a few hundred ns. Not a real machine.
graph::ClusterSpec TestCluster();

// Sets all host costs to zero and removes the slow-down by overlap, for closed forms.
void MakeFree(graph::ClusterSpec* cluster);

}  // namespace prism::testing
