// A small invented cluster with every parameter that the cost models read.
#pragma once

#include "graph/cluster.h"

namespace prism::testing {

// Round numbers, two GPUs a node, host costs of some hundred ns. Not a real machine.
graph::ClusterSpec TestCluster();

// `cluster` with all host costs zero and no slow-down by overlap: for closed forms.
void MakeFree(graph::ClusterSpec* cluster);

}  // namespace prism::testing
