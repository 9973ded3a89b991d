#include "replayer/cost/compute_cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

ComputeCost::ComputeCost(const graph::ClusterSpec& cluster) {
  const graph::ParameterTable& table = cluster.parameters;
  peak_bf16_ = table.Value("gpu.peak_bf16_flops");
  peak_fp8_ = table.Value("gpu.peak_fp8_flops");
  peak_tf32_ = table.Value("gpu.peak_tf32_flops");
  peak_fp32_ = table.Value("gpu.peak_fp32_flops");
  matmul_efficiency_ = table.Value("gpu.matmul_efficiency");
  matmul_half_k_ = table.Value("gpu.matmul_half_k");
  tile_m_ = table.Value("gpu.matmul_tile_m");
  tile_n_ = table.Value("gpu.matmul_tile_n");
  sm_count_ = std::max(1, cluster.gpu.sm_count);
  attention_efficiency_ = table.Value("gpu.attention_efficiency");
  attention_backward_efficiency_ = table.Value("gpu.attention_backward_efficiency");
  bandwidth_ = table.Value("gpu.hbm_bytes_per_s") * table.Value("gpu.hbm_efficiency");
  copy_bandwidth_ = table.Value("gpu.copy_bytes_per_s");
  floor_ = table.Value("gpu.kernel_floor_ns") * 1e-9;
  gap_ns_ = static_cast<DurationNs>(table.Value("gpu.kernel_gap_ns"));
}

double ComputeCost::PeakFlops(graph::DataType type) const {
  switch (type) {
    case graph::DataType::kFloat8:
      return peak_fp8_ > 0 ? peak_fp8_ : peak_bf16_;
    case graph::DataType::kFloat32:
      return peak_tf32_;
    case graph::DataType::kFloat64:
      return peak_fp32_ / 2;
    default:
      return peak_bf16_;
  }
}

// Tiles of tile_m × tile_n are dealt to the SMs in waves. A matrix product that fills only part of
// its last wave, or whose edges fill only part of their tiles, still takes whole waves of whole
// tiles. cuBLAS splits k where a single wave would be badly filled, so at most half is lost there.
double ComputeCost::MatmulSeconds(const graph::MatmulShape& shape) const {
  auto m = static_cast<double>(shape.m);
  auto n = static_cast<double>(shape.n);
  auto k = static_cast<double>(shape.k);
  double batch = std::max<double>(1, static_cast<double>(shape.batch));
  // cuBLAS turns the tile round when the other way fits better.
  double upright = std::ceil(m / tile_m_) * std::ceil(n / tile_n_);
  double turned = std::ceil(m / tile_n_) * std::ceil(n / tile_m_);
  double tiles = std::min(upright, turned) * batch;
  double waves = std::ceil(tiles / sm_count_);
  double work = std::max(m * n * batch, 0.5 * waves * sm_count_ * tile_m_ * tile_n_);
  if (tiles > sm_count_) {
    work = waves * sm_count_ * tile_m_ * tile_n_;
  }
  double efficiency = matmul_efficiency_ * k / (k + matmul_half_k_);
  double compute = 2 * work * k / (PeakFlops(shape.input) * efficiency);
  double bytes = batch * (m * k + k * n) * static_cast<double>(graph::DataTypeBytes(shape.input)) +
                 batch * m * n * static_cast<double>(graph::DataTypeBytes(shape.output));
  return std::max(compute, BytesSeconds(bytes));
}

// Inputs begin with q, k, v of [batch, heads, sequence, head dimension] (the backward op puts the
// output's gradient first). Training attention is causal: half of the products.
double ComputeCost::AttentionSeconds(const graph::KernelSignature& signature, bool backward) const {
  size_t first = backward ? 1 : 0;
  if (signature.inputs.size() < first + 2 || signature.inputs[first].dims.size() != 4) {
    return 0;
  }
  const std::vector<int64_t>& q = signature.inputs[first].dims;
  const std::vector<int64_t>& k = signature.inputs[first + 1].dims;
  if (k.size() != 4) {
    return 0;
  }
  // Fused kernels of some ops take [batch, sequence, heads, dimension]; the product is the same,
  // only which of the two middle lengths is the sequence differs: it is the longer one.
  auto batch_heads = static_cast<double>(q[0] * std::min(q[1], q[2]));
  auto queries = static_cast<double>(std::max(q[1], q[2]));
  auto keys = static_cast<double>(std::max(k[1], k[2]));
  double flops = 4 * batch_heads * queries * keys * static_cast<double>(q[3]) / 2;
  double peak = PeakFlops(signature.inputs[first].dtype);
  if (backward) {
    return 2.5 * flops / (peak * attention_backward_efficiency_);
  }
  return flops / (peak * attention_efficiency_);
}

DurationNs ComputeCost::AtLeastFloor(double seconds) const {
  return NsFromSeconds(std::max(seconds, floor_)) + gap_ns_;
}

KernelCost ComputeCost::Kernel(const graph::Graph& graph,
                               const graph::KernelSignature& signature) const {
  KernelView view = {graph.string(signature.name), graph.string(signature.framework_op), signature};
  if (signature.matmul.m > 0) {
    return {AtLeastFloor(MatmulSeconds(signature.matmul)), "matmul"};
  }
  if (IsAttentionKernel(view)) {
    double seconds = AttentionSeconds(signature, IsAttentionBackward(view));
    if (seconds > 0) {
      return {AtLeastFloor(seconds), "attention"};
    }
  }
  if (auto bytes = TensorListBytes(view)) {
    return {AtLeastFloor(BytesSeconds(*bytes)), "foreach"};
  }
  if (auto bytes = FrameworkOpBytes(view)) {
    return {AtLeastFloor(BytesSeconds(*bytes)), "memory"};
  }
  return {AtLeastFloor(BytesSeconds(DefaultBytes(view))), "default"};
}

DurationNs ComputeCost::Copy(int64_t bytes, uint8_t flags) const {
  bool host = (flags & (graph::kHostToDevice | graph::kDeviceToHost)) != 0;
  auto size = static_cast<double>(bytes);
  return AtLeastFloor(host ? size / copy_bandwidth_ : BytesSeconds(2 * size));
}

DurationNs ComputeCost::Memset(int64_t bytes) const {
  return AtLeastFloor(BytesSeconds(static_cast<double>(bytes)));
}

std::vector<KernelCost> CostSignatures(const graph::Graph& graph) {
  ComputeCost cost(graph.cluster);
  std::vector<KernelCost> costs;
  costs.reserve(graph.signatures.size());
  for (const graph::KernelSignature& signature : graph.signatures) {
    costs.push_back(cost.Kernel(graph, signature));
  }
  return costs;
}

namespace {

// What one iteration of a role's program adds to the report, for `ranks` ranks.
class CostTally {
 public:
  explicit CostTally(const graph::Graph& graph)
      : graph_(graph), cost_(graph.cluster), kernels_(CostSignatures(graph)) {}

  void Add(const graph::Program& program, int64_t ranks) {
    for (uint32_t op = 0; op < program.size(); ++op) {
      AddOp(program, op, ranks);
    }
  }

  [[nodiscard]] CostReport Finish() const {
    CostReport report;
    for (const auto& [name, rule] : rules_) {
      report.push_back(rule);
    }
    return report;
  }

 private:
  void AddOp(const graph::Program& program, uint32_t op, int64_t ranks) {
    graph::OpKind kind = program.kind[op];
    if (kind == graph::OpKind::kMemcpy) {
      Count("copy", ranks, cost_.Copy(program.value[op], program.flags[op]));
    } else if (kind == graph::OpKind::kMemset) {
      Count("copy", ranks, cost_.Memset(program.value[op]));
    } else if (kind == graph::OpKind::kKernel) {
      if ((program.flags[op] & graph::kDurationFixed) != 0) {
        Count("fixed", ranks, program.value[op]);
        return;
      }
      uint32_t signature = program.signature[op];
      CostRule& rule = Count(kernels_[signature].rule, ranks, kernels_[signature].duration_ns);
      DurationNs& longest = longest_[rule.rule];
      if (kernels_[signature].duration_ns > longest) {
        longest = kernels_[signature].duration_ns;
        rule.example =
            fmt::format("{}: {}", graph_.string(graph_.signatures[signature].framework_op),
                        graph_.string(graph_.signatures[signature].name));
      }
    }
  }

  CostRule& Count(const char* name, int64_t ranks, DurationNs duration) {
    CostRule& rule = rules_[name];
    rule.rule = name;
    rule.ops += ranks;
    rule.seconds += static_cast<double>(ranks) * SecondsFromNs(duration);
    return rule;
  }

  const graph::Graph& graph_;
  ComputeCost cost_;
  std::vector<KernelCost> kernels_;
  std::map<std::string, CostRule> rules_;
  std::map<std::string, DurationNs> longest_;  // by rule: the costliest signature so far
};

}  // namespace

CostReport ReportCosts(const graph::Graph& graph) {
  std::vector<int64_t> ranks(graph.roles.size());
  for (uint32_t role : graph.ranks.role) {
    ++ranks[role];
  }
  CostTally tally(graph);
  for (size_t role = 0; role < graph.roles.size(); ++role) {
    tally.Add(graph.roles[role].program, ranks[role]);
  }
  return tally.Finish();
}

}  // namespace prism::replayer
