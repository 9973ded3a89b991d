// A network that another tool describes, as a cluster of ours.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "slicer/import/astra/network_file.h"
#include "slicer/tasks/notes.h"

namespace prism::launch {

// Takes rates and the size of a node into `cluster`: the first dimension is a node and its links,
// the second the network between nodes, with a NIC a GPU. Rates are what messages achieve (what
// slicer::NetworkOf writes), so that none is lost to an efficiency of the cluster's; a latency
// between nodes is all of a message's. What the file does not say (latencies of NCCL and inside of
// a node, what its algorithms lose) stays as it is; that, and what the file says and a cluster does
// not hold, is counted. `source` names the file. kBadFile for a first dimension that is no node.
Status UseNetwork(const slicer::AstraNetwork& network,
                  const std::string& source,
                  graph::ClusterSpec* cluster,
                  slicer::Notes* notes);

}  // namespace prism::launch
