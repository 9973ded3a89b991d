// How long kernels take on an idle GPU: per signature, never per op.
//
// Matrix products and convolutions by a roofline with tiles, waves and split-K, attention by its
// FLOPs, everything else by the bytes that its framework op must move, with the launch floor as a
// minimum. Kernels that no rule covers are costed by the bytes of their inputs and counted, so that
// the report can say which share of the time rests on which rule. A measured time
// (replayer/cost/measured_kernels.h) takes precedence over them, and what a GPU took for this very
// job (RecordedTimes there) over all. At most twelve parameters per GPU
// type are fitted; the rest comes from its data sheet (replayer/cost/parameters.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/cost/attention.h"
#include "replayer/cost/convolution.h"
#include "replayer/cost/kernel_rules.h"
#include "replayer/cost/measured_kernels.h"

namespace prism::replayer {

// How many ops of one iteration, over all ranks, one rule decided, and how much of their time.
struct CostRule {
  // "recorded", "measured", "matmul", "convolution", "factorisation", "attention", "memory",
  // "foreach", "default", "fixed", "copy"
  std::string rule;
  int64_t ops = 0;
  double seconds = 0;
  std::string example;  // framework op and kernel of the costliest signature under "default"
};

// Ordered by rule; only rules that were used.
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

  // Without what a GPU took for this job.
  [[nodiscard]] KernelCost UnrecordedKernel(const graph::Graph& graph,
                                            const graph::KernelSignature& signature) const;

  // A copy or memset of `bytes` by the copy engine; `flags` as in graph::OpFlag.
  [[nodiscard]] DurationNs Copy(int64_t bytes, uint8_t flags) const;
  [[nodiscard]] DurationNs Memset(int64_t bytes) const;
  [[nodiscard]] DurationNs UnrecordedCopy(int64_t bytes, uint8_t flags) const;
  [[nodiscard]] DurationNs UnrecordedMemset(int64_t bytes) const;

  // Whether a GPU took a time for such an op of this job.
  [[nodiscard]] bool IsRecorded(const graph::Graph& graph,
                                const graph::Program& program,
                                uint32_t op) const;

  // Between a kernel of a full stream and the next.
  [[nodiscard]] DurationNs gap_ns() const { return gap_ns_; }

 private:
  // One way for cuBLAS to tile a product: tiles of m × n, each over 1/splits of k, and the
  // efficiency of such tiles relative to the largest.
  struct Tiling {
    double m = 1;
    double n = 1;
    double splits = 1;
    double efficiency = 1;
  };

  [[nodiscard]] double MatmulSeconds(const graph::MatmulShape& shape, std::string_view name) const;
  [[nodiscard]] double ProductSeconds(const graph::MatmulShape& shape, std::string_view name) const;
  [[nodiscard]] double ConvolutionSeconds(const Convolution& convolution) const;
  [[nodiscard]] double TiledSeconds(const graph::MatmulShape& shape,
                                    const Tiling& tiling,
                                    double flops_per_s) const;
  [[nodiscard]] double MisalignedFactor(const graph::MatmulShape& shape) const;
  [[nodiscard]] double MatmulFlops(DataType type, std::string_view name) const;
  [[nodiscard]] double AttentionSeconds(const AttentionShape& shape,
                                        AttentionGeneration generation) const;
  [[nodiscard]] double BytesSeconds(double bytes) const { return bytes / bandwidth_; }
  [[nodiscard]] DurationNs AtLeastFloor(double seconds) const;

  double peak_bf16_ = 0;
  double peak_fp4_ = 0;
  double peak_fp8_ = 0;
  double peak_tf32_ = 0;
  double peak_fp32_ = 0;
  double peak_fp64_ = 0;
  double matmul_efficiency_ = 0;
  double matmul_fp4_efficiency_ = 0;
  double matmul_fp8_efficiency_ = 0;
  double matmul_fp32_efficiency_ = 0;
  double matmul_misaligned_factor_ = 1;
  double matmul_half_k_ = 0;
  double tile_m_ = 1;
  double tile_n_ = 1;
  double most_splits_ = 1;
  double sm_count_ = 1;
  double attention_efficiency_ = 0;
  double attention_backward_efficiency_ = 0;
  double attention_cudnn_factor_ = 1;
  double attention_half_head_dim_ = 0;
  double attention_half_seq_ = 0;
  double bandwidth_ = 0;       // device memory, achieved
  double copy_bandwidth_ = 0;  // between host and device
  double floor_ = 0;           // seconds
  DurationNs gap_ns_ = 0;
  MeasuredKernels measured_;
  RecordedTimes recorded_;
};

// Costs of all signatures of `graph`, by index into Graph::signatures.
std::vector<KernelCost> CostSignatures(const graph::Graph& graph);

// Which rules decided how much of the compute time of one iteration.
CostReport ReportCosts(const graph::Graph& graph);

}  // namespace prism::replayer
