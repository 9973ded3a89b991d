// Named synthetic jobs of any size: for `prism bench replay` and for tests.
//
//   ring         16 steps of a kernel and a message to the next rank of a ring
//   stencil      8 steps of halo exchange with up to six neighbours on a 3D torus, a kernel and an
//                all_reduce of one number
//   llm          transformer of 32 layers; gradients reduced by layer beside backward, in rings of
//                16 ranks and message by message: 3,000 tasks per rank, as LogGOPSim counts them
//   dlrm         recommendation model: all_to_all of embeddings both ways, dense gradients reduced
//   astra        210 trace nodes per rank, all alike, as in ASTRA-sim's data-parallel examples: 70
//                layers forward and backward, an all_reduce of each layer's gradients beside it
//   gpt3-layer   GPT-3 175B, tp 8, pp 16, the rest dp, 128 micro-batches per rank, ZeRO 1:
//                two kernels per layer and direction, all collectives
//   gpt3-kernel  the same with every kernel: about 40,000 kernels and collectives per rank
//
// Kernel durations are fixed: FLOPs or bytes over round H100 rates
// (slicer/workloads/kernel_time.h). The caller sets the cluster of the graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::slicer {

const std::vector<std::string>& WorkloadNames();

// kInvalidArgument for an unknown name or a number of ranks that the workload cannot have.
Result<graph::Graph> MakeWorkload(std::string_view name, int32_t ranks);

}  // namespace prism::slicer
