// Profiles and the cluster: which one has their GPU, and how its model compares with the transfers
// that they measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::launch {

// A cluster of the GPU of that name ("NVIDIA A100-SXM4-80GB") and memory (0: not known): the preset
// that has it, else its profile with the network it is mostly found in. Null: the GPU is not known.
Result<std::optional<graph::ClusterSpec>> ClusterOfGpu(const std::string& gpu, int64_t bytes);

// Where the measured time of a collective and the time on the graph's cluster differ by more than
// twice: a warning that names both. Null: nowhere.
std::optional<graph::Warning> MeasuredTransfersDiffer(const graph::Graph& graph);

// The cluster decides what collectives and messages take, not the measurement.
void UseModelledTransfers(graph::Graph* graph);

}  // namespace prism::launch
