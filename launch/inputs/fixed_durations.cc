#include "launch/inputs/fixed_durations.h"

#include <vector>

#include "replayer/cost/compute_cost.h"

namespace prism::launch {

void FixDurations(graph::Graph* graph) {
  const replayer::ComputeCost cost(graph->cluster);
  std::vector<DurationNs> kernels;
  kernels.reserve(graph->signatures.size());
  for (const graph::KernelSignature& signature : graph->signatures) {
    kernels.push_back(cost.Kernel(*graph, signature).duration_ns);
  }
  for (graph::Role& role : graph->roles) {
    graph::Program& program = role.program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if ((program.flags[op] & graph::kDurationFixed) != 0) {
        continue;
      }
      if (program.kind[op] == graph::OpKind::kKernel) {
        program.value.Set(op, kernels[program.signature[op]]);
      } else if (program.kind[op] == graph::OpKind::kMemcpy) {
        program.value.Set(op, cost.Copy(program.value[op], program.flags[op]));
      } else if (program.kind[op] == graph::OpKind::kMemset) {
        program.value.Set(op, cost.Memset(program.value[op]));
      } else {
        continue;
      }
      program.flags[op] |= graph::kDurationFixed;
    }
  }
}

}  // namespace prism::launch
