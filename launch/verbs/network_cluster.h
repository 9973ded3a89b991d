// A network that another tool describes, as a cluster of ours.
#pragma once

#include <string>

#include "graph/cluster.h"
#include "slicer/import/astra/network_file.h"

namespace prism::launch {

// Takes rates and the size of a node into `cluster`: the first dimension is a node and its links,
// the second the network between nodes, with a NIC a GPU. What the file does not say (efficiencies,
// latencies of NCCL) stays as it is. `source` names the file.
void UseNetwork(const slicer::AstraNetwork& network,
                const std::string& source,
                graph::ClusterSpec* cluster);

}  // namespace prism::launch
