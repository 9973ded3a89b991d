// Parameters that depend on how much of a cluster a job takes: what hosts and transfers between
// stages meet of each other. Two effects, both seen in published runs of nanotron on one cluster
// (EFA, 8 H100 a node) and nowhere else, their causes not known; elsewhere their sizes are 0:
//
// - In a job whose pipeline crosses nodes, a collective call takes host.collective_rank_ns of the
//   host for each tensor-parallel rank, host.collective_nodes_factor times that for each doubling
//   of the nodes that the group spans: hosts become the bottleneck, whatever the micro-batch.
// - From net.stall_nodes nodes on, and where a tensor-parallel group spans net.stall_group_nodes,
//   each send and receive stalls for net.stall_ns. Other pipelines over nodes stall in some runs
//   and in others of the same kind not: a quarter of the published ones, each by that much.
#pragma once

#include <optional>

#include "graph/cluster.h"
#include "graph/job.h"

namespace prism::replayer {

// Whether WithCongestion changes anything.
bool FindsCongestion(const graph::ClusterSpec& cluster, const graph::JobSpec& job);

// The cluster as `job` finds it. `cluster` has every key of parameters.h.
graph::ClusterSpec WithCongestion(const graph::ClusterSpec& cluster, const graph::JobSpec& job);

// The cluster as `job` finds it when its transfers stall that need not; nothing where they always
// do or never can.
std::optional<graph::ClusterSpec> Stalled(const graph::ClusterSpec& cluster,
                                          const graph::JobSpec& job);

}  // namespace prism::replayer
