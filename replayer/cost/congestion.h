// Parameters that depend on how much of a cluster a job uses: how hosts, and transfers between
// stages, delay each other. Two effects, both seen only in published runs of nanotron on one
// cluster (EFA, 8 H100 per node), with unknown causes; elsewhere their sizes are 0:
//
// - In a job whose pipeline crosses nodes, a collective call takes host.collective_rank_ns of the
//   host for each tensor-parallel rank, host.collective_nodes_factor times that for each doubling
//   of the nodes that the group spans: hosts become the bottleneck, whatever the size of the
//   micro-batch.
// - From net.stall_nodes nodes on, and if a tensor-parallel group spans net.stall_group_nodes, each
//   send and receive stalls for net.stall_ns. Other pipelines across nodes stall in some runs and
//   not in others of the same kind: a quarter of the published ones do, each by that much.
#pragma once

#include <optional>

#include "graph/job/cluster.h"
#include "graph/job/job.h"

namespace prism::replayer {

// Whether WithCongestion changes anything.
bool FindsCongestion(const graph::ClusterSpec& cluster, const graph::JobSpec& job);

// The cluster as `job` experiences it. `cluster` has every key of parameters.h.
graph::ClusterSpec WithCongestion(const graph::ClusterSpec& cluster, const graph::JobSpec& job);

// The cluster as `job` experiences it if the transfers that may stall do; null if they always or
// never stall.
std::optional<graph::ClusterSpec> Stalled(const graph::ClusterSpec& cluster,
                                          const graph::JobSpec& job);

}  // namespace prism::replayer
