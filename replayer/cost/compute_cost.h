// How long kernels take on an idle GPU: per signature, never per op.
//
// Matrix products by a roofline with tiles and waves, attention by its FLOPs, everything else by
// the bytes that its framework op must move, at least the launch floor. What no rule knows is
// costed by the bytes of its inputs and counted, so that the report can say what share of the time
// rests on which rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/time.h"
#include "graph/graph.h"

namespace prism::replayer {

// How many ops of one iteration over all ranks, and how much of their time, one rule decided.
struct CostRule {
  std::string rule;  // "matmul", "attention", "memory", "foreach", "default", "fixed", "copy"
  int64_t ops = 0;
  double seconds = 0;
  std::string example;  // framework op and kernel of the costliest signature under "default"
};

// Ordered by rule. Only rules that were used.
using CostReport = std::vector<CostRule>;

// One signature's cost and the rule that gave it.
struct KernelCost {
  DurationNs duration_ns = 0;
  const char* rule = "";
};

class ComputeCost {
 public:
  // `cluster` must have every key of parameters.h.
  explicit ComputeCost(const graph::ClusterSpec& cluster);

  [[nodiscard]] KernelCost Kernel(const graph::Graph& graph,
                                  const graph::KernelSignature& signature) const;

  // A copy or memset of `bytes` by the copy engine; `flags` as in graph::OpFlag.
  [[nodiscard]] DurationNs Copy(int64_t bytes, uint8_t flags) const;
  [[nodiscard]] DurationNs Memset(int64_t bytes) const;

 private:
  [[nodiscard]] double MatmulSeconds(const graph::MatmulShape& shape) const;
  [[nodiscard]] double AttentionSeconds(const graph::KernelSignature& signature,
                                        bool backward) const;
  [[nodiscard]] double BytesSeconds(double bytes) const { return bytes / bandwidth_; }
  [[nodiscard]] DurationNs AtLeastFloor(double seconds) const;
  [[nodiscard]] double PeakFlops(graph::DataType type) const;

  double peak_bf16_ = 0;
  double peak_fp8_ = 0;
  double peak_tf32_ = 0;
  double peak_fp32_ = 0;
  double matmul_efficiency_ = 0;
  double matmul_half_k_ = 0;
  double tile_m_ = 1;
  double tile_n_ = 1;
  double sm_count_ = 1;
  double attention_efficiency_ = 0;
  double attention_backward_efficiency_ = 0;
  double bandwidth_ = 0;       // device memory, achieved
  double copy_bandwidth_ = 0;  // between host and device
  double floor_ = 0;           // seconds
  DurationNs gap_ns_ = 0;
};

// Costs of all signatures of `graph`, by SignatureId.
std::vector<KernelCost> CostSignatures(const graph::Graph& graph);

// Which rules decided how much of the compute time of one iteration.
CostReport ReportCosts(const graph::Graph& graph);

}  // namespace prism::replayer
