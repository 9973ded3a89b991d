// A network that another tool describes, as a Prism cluster.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "slicer/import/astra/network_file.h"
#include "slicer/tasks/notes.h"

namespace prism::launch {

// Takes rates and the size of a node into `cluster`: the first dimension is a node and its links,
// the second the network between nodes, with one NIC per GPU. Rates are what messages achieve (what
// slicer::NetworkOf writes), so the cluster's efficiencies do not reduce them; a latency between
// nodes is a message's whole latency. What the file does not specify (latencies of NCCL and inside
// a node, losses of its algorithms) stays as it is; this, and what the file specifies but a cluster
// cannot express, is counted. `source` names the file. kBadFile for a first dimension that cannot
// be a node.
Status UseNetwork(const slicer::AstraNetwork& network,
                  const std::string& source,
                  graph::ClusterSpec* cluster,
                  slicer::Notes* notes);

}  // namespace prism::launch
