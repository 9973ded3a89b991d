#include "replayer/cost/compute_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "replayer/cost/factorisation.h"
#include "replayer/cost/grouped_product.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

namespace {

// Of fp32's rate, by compute capability: GPUs for computing have as many or half as many units for
// 64 bits (matrix units from A100 to H100), all others one for 64.
double Fp64Share(const graph::GpuSpec& gpu) {
  const int capability = 10 * gpu.compute_major + gpu.compute_minor;
  if (capability == 80 || capability == 90) {
    return 1;
  }
  const bool half = capability == 60 || capability == 70 || (capability > 90 && capability <= 100);
  return half ? 0.5 : 1.0 / 64;
}

}  // namespace

ComputeCost::ComputeCost(const graph::ClusterSpec& cluster)
    : measured_(cluster.parameters), recorded_(cluster.parameters) {
  const graph::ParameterTable& table = cluster.parameters;
  const double clock = table.Value("gpu.sustained_clock");
  peak_bf16_ = clock * table.Value("gpu.peak_bf16_flops");
  peak_fp4_ = clock * table.Value("gpu.peak_fp4_flops");
  peak_fp8_ = clock * table.Value("gpu.peak_fp8_flops");
  peak_tf32_ = clock * table.Value("gpu.peak_tf32_flops");
  peak_fp32_ = clock * table.Value("gpu.peak_fp32_flops");
  peak_fp64_ = peak_fp32_ * Fp64Share(cluster.gpu);
  matmul_efficiency_ = table.Value("gpu.matmul_efficiency");
  matmul_fp4_efficiency_ = table.Value("gpu.matmul_fp4_efficiency");
  matmul_fp8_efficiency_ = table.Value("gpu.matmul_fp8_efficiency");
  matmul_fp32_efficiency_ = table.Value("gpu.matmul_fp32_efficiency");
  matmul_misaligned_factor_ = table.Value("gpu.matmul_misaligned_factor");
  matmul_half_k_ = table.Value("gpu.matmul_half_k");
  tile_m_ = table.Value("gpu.matmul_tile_m");
  tile_n_ = table.Value("gpu.matmul_tile_n");
  most_splits_ = table.Value("gpu.matmul_most_splits");
  sm_count_ = std::max(1, cluster.gpu.sm_count);
  attention_efficiency_ = table.Value("gpu.attention_efficiency");
  attention_backward_efficiency_ = table.Value("gpu.attention_backward_efficiency");
  attention_cudnn_factor_ = table.Value("gpu.attention_cudnn_factor");
  attention_half_head_dim_ = table.Value("gpu.attention_half_head_dim");
  attention_half_seq_ = table.Value("gpu.attention_half_seq");
  bandwidth_ = table.Value("gpu.hbm_bytes_per_s") * table.Value("gpu.hbm_efficiency");
  copy_bandwidth_ = table.Value("gpu.copy_bytes_per_s");
  floor_ = table.Value("gpu.kernel_floor_ns") * 1e-9;
  gap_ns_ = static_cast<DurationNs>(table.Value("gpu.kernel_gap_ns"));
}

// FLOP/s of the matrix units at large sizes. fp32 products run outside of them unless the library
// was allowed tf32 (not torch's default), as its kernel's name then says. There is no 4-bit element
// type: the name of an 8-bit product says if it is one of 4 bits.
double ComputeCost::MatmulFlops(DataType type, std::string_view name) const {
  switch (type) {
    case DataType::kFloat8:
    case DataType::kInt8:
      if (name.find("fp4") != std::string_view::npos && peak_fp4_ > 0) {
        return peak_fp4_ * matmul_fp4_efficiency_;
      }
      return peak_fp8_ > 0 ? peak_fp8_ * matmul_fp8_efficiency_ : peak_bf16_ * matmul_efficiency_;
    case DataType::kFloat32: {
      const bool tf32 = name.find("tf32") != std::string_view::npos && peak_tf32_ > 0;
      return tf32 ? peak_tf32_ * matmul_efficiency_ : peak_fp32_ * matmul_fp32_efficiency_;
    }
    case DataType::kFloat64:
      return peak_fp64_ * matmul_fp32_efficiency_;
    case DataType::kUnknown:
      // A complex product is four real ones.
      if (name.find("Cgemm") != std::string_view::npos) {
        return peak_fp32_ / 4 * matmul_fp32_efficiency_;
      }
      if (name.find("Zgemm") != std::string_view::npos) {
        return peak_fp64_ / 4 * matmul_fp32_efficiency_;
      }
      [[fallthrough]];
    default:
      return peak_bf16_ * matmul_efficiency_;
  }
}

// Matrix units load rows in units of 16 bytes. If the contiguous dimension of an operand is not a
// multiple of that, a batched product falls back to slower kernels (about 11 times on A100 in fp16:
// attention with a head dimension that is not a multiple of 8). A plain product has kernels for
// this and loses less: kPlainShare of it.
double ComputeCost::MisalignedFactor(const graph::MatmulShape& shape) const {
  constexpr double kPlainShare = 0.15;
  const int64_t bytes = DataTypeBytes(shape.input);
  if (bytes == 0 || bytes > 2) {
    return 1;
  }
  const int64_t unit = 16 / bytes;
  const int64_t row_a = shape.transpose_a ? shape.k : shape.m;
  const int64_t row_b = shape.transpose_b ? shape.n : shape.k;
  if (row_a % unit == 0 && row_b % unit == 0 && shape.m % unit == 0) {
    return 1;
  }
  return shape.batch > 1 ? matmul_misaligned_factor_
                         : 1 + kPlainShare * (matmul_misaligned_factor_ - 1);
}

// Tiles are distributed over the SMs in waves. A product that fills only part of its last wave, or
// whose edges fill only part of their tiles, still takes whole waves of whole tiles. Filling and
// draining a tile takes as long as half_k steps of its inner loop. Splitting k makes more tiles and
// costs a pass over partial sums in fp32.
double ComputeCost::TiledSeconds(const graph::MatmulShape& shape,
                                 const Tiling& tiling,
                                 double flops_per_s) const {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const double batch = std::max<double>(1, static_cast<double>(shape.batch));
  const double k = static_cast<double>(shape.k) / tiling.splits;
  const double tiles = std::ceil(m / tiling.m) * std::ceil(n / tiling.n) * batch * tiling.splits;
  const double work = std::ceil(tiles / sm_count_) * sm_count_ * tiling.m * tiling.n;
  // Filling takes the same time, whichever units compute the products.
  const double fill =
      matmul_half_k_ * std::min(1.0, flops_per_s / (peak_bf16_ * matmul_efficiency_));
  const double seconds = 2 * work * (k + fill) / (flops_per_s * tiling.efficiency);
  return tiling.splits > 1 ? seconds + BytesSeconds(8 * m * n * batch * tiling.splits) : seconds;
}

// The best of cuBLAS's options: its largest tile, a half and a quarter of it, each in both
// orientations, with k whole or split. Smaller tiles load more bytes per flop. Does not include the
// bytes of the operands.
double ComputeCost::ProductSeconds(const graph::MatmulShape& shape, std::string_view name) const {
  struct Size {
    double rows;
    double columns;
    double efficiency;
  };
  const Size sizes[] = {{tile_m_, tile_n_, 1},
                        {tile_m_, std::max(1.0, tile_n_ / 2), 0.93},
                        {std::max(1.0, tile_m_ / 2), std::max(1.0, tile_n_ / 2), 0.85},
                        {std::max(1.0, tile_m_ / 2), std::max(1.0, tile_n_ / 4), 0.7}};
  constexpr double kLeastSplitK = 1024;
  const double flops_per_s = MatmulFlops(shape.input, name);
  const auto k = static_cast<double>(shape.k);
  double compute = std::numeric_limits<double>::infinity();
  for (const Size& size : sizes) {
    for (double splits = 1; splits <= most_splits_; splits *= 2) {
      if (splits > 1 && k / splits < kLeastSplitK) {
        break;
      }
      compute = std::min(
          {compute,
           TiledSeconds(shape, {size.rows, size.columns, splits, size.efficiency}, flops_per_s),
           TiledSeconds(shape, {size.columns, size.rows, splits, size.efficiency}, flops_per_s)});
    }
  }
  return compute;
}

double ComputeCost::MatmulSeconds(const graph::MatmulShape& shape, std::string_view name) const {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double batch = std::max<double>(1, static_cast<double>(shape.batch));
  const double bytes = batch * (m * k + k * n) * static_cast<double>(DataTypeBytes(shape.input)) +
                       batch * m * n * static_cast<double>(DataTypeBytes(shape.output));
  return std::max(ProductSeconds(shape, name) * MisalignedFactor(shape), BytesSeconds(bytes));
}

// As efficient as a plain product of that shape (assumed: not compared with published runs of
// convolutions). fp32 goes through matrix units as tf32 unless the program forbids it
// (torch.backends.cudnn.allow_tf32, which is true by default, unlike that of matrix products).
// Matrix units want channels last: cuDNN transposes all three tensors, or computes without them if
// that is faster.
double ComputeCost::ConvolutionSeconds(const Convolution& convolution) const {
  const double moved = BytesSeconds(convolution.bytes);
  if (convolution.narrow) {
    return moved;
  }
  const double product =
      std::max(moved, ProductSeconds(convolution.product, convolution.tf32 ? "tf32" : ""));
  const bool fp32 = convolution.product.input == DataType::kFloat32;
  const bool on_matrix_units = !fp32 || (convolution.tf32 && peak_tf32_ > peak_fp32_);
  if (convolution.channels_last || !on_matrix_units) {
    return product;
  }
  graph::MatmulShape plain = convolution.product;
  plain.input = DataType::kFloat32;
  return std::min(product + 2 * moved, std::max(moved, ProductSeconds(plain, "")));
}

// Short sequences and narrow heads spend more of their time outside the matrix units, and fewer
// blocks of 128 queries (with split keys: of 128 keys as well) than SMs leave SMs idle. Few queries
// wait for keys and values to be read. A mask hides what comes after a query; queries are the last
// of the sequence.
double ComputeCost::AttentionSeconds(const AttentionShape& shape,
                                     AttentionGeneration generation) const {
  constexpr double kBlock = 128;
  const auto batch_heads = static_cast<double>(shape.batch_heads);
  const auto queries = static_cast<double>(shape.queries);
  const auto keys = static_cast<double>(shape.keys);
  const auto width = static_cast<double>(shape.width);
  const double seen = shape.causal ? 1 - std::min(1.0, queries / std::max(1.0, keys)) / 2 : 1;
  const double flops = shape.products * 4 * batch_heads * queries * keys * width * seen;
  double efficiency = shape.backward ? attention_backward_efficiency_ : attention_efficiency_;
  efficiency *= keys / (keys + attention_half_seq_) * width / (width + attention_half_head_dim_);
  const double blocks =
      std::ceil(queries / kBlock) * (shape.splits_keys ? std::ceil(keys / kBlock) : 1);
  efficiency *= std::min(1.0, batch_heads * blocks / sm_count_);
  if (generation == AttentionGeneration::kHopper) {
    efficiency *= attention_cudnn_factor_;
  } else if (generation == AttentionGeneration::kFlash1) {
    efficiency *= 0.5;  // flash v2's paper: twice as fast as v1
  }
  double peak = peak_bf16_;
  if (shape.type == DataType::kFloat8 && peak_fp8_ > 0) {
    peak = peak_fp8_;
  } else if (shape.type == DataType::kFloat32) {
    peak = peak_tf32_ > 0 ? peak_tf32_ / 3 : peak_fp32_;  // three products of parts of tf32
  }
  const double products = flops > 0 ? flops / (peak * efficiency) : 0;
  return std::max(products, BytesSeconds(static_cast<double>(shape.kv_bytes)));
}

DurationNs ComputeCost::AtLeastFloor(double seconds) const {
  return NsFromSeconds(std::max(seconds, floor_)) + gap_ns_;
}

KernelCost ComputeCost::Kernel(const graph::Graph& graph,
                               const graph::KernelSignature& signature) const {
  if (!recorded_.empty()) {
    if (const auto recorded = recorded_.Find(RecordedKernelKey(graph, signature))) {
      return {*recorded + gap_ns_, "recorded"};
    }
  }
  return UnrecordedKernel(graph, signature);
}

KernelCost ComputeCost::UnrecordedKernel(const graph::Graph& graph,
                                         const graph::KernelSignature& signature) const {
  KernelView view = {graph.string(signature.name), graph.string(signature.framework_op), signature};
  if (const std::optional<DurationNs> measured = measured_.Find(view)) {
    return {*measured, "measured"};
  }
  if (signature.matmul.m > 0) {
    return {AtLeastFloor(MatmulSeconds(signature.matmul, view.kernel)), "matmul"};
  }
  if (const std::optional<Convolution> convolution = FindConvolution(view)) {
    return {AtLeastFloor(ConvolutionSeconds(*convolution)), "convolution"};
  }
  if (const std::optional<Factorisation> factors = FindFactorisation(view)) {
    constexpr double kOfProducts = 0.35;  // of their rate, at large sizes
    const double rate = kOfProducts * MatmulFlops(factors->type, "");
    return {AtLeastFloor(factors->flops / rate + factors->columns_s), "factorisation"};
  }
  if (const auto product = FindGroupedProduct(view)) {
    return {AtLeastFloor(MatmulSeconds(*product, view.kernel)), "matmul"};
  }
  if (IsAttentionKernel(view)) {
    if (const std::optional<AttentionShape> shape = FindAttention(view)) {
      return {AtLeastFloor(AttentionSeconds(*shape, AttentionGenerationOf(view))), "attention"};
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
  const auto recorded = recorded_.Find(recorded_.empty() ? "" : RecordedCopyKey(bytes, flags));
  return recorded ? *recorded + gap_ns_ : UnrecordedCopy(bytes, flags);
}

DurationNs ComputeCost::Memset(int64_t bytes) const {
  const auto recorded = recorded_.Find(recorded_.empty() ? "" : RecordedMemsetKey(bytes));
  return recorded ? *recorded + gap_ns_ : UnrecordedMemset(bytes);
}

bool ComputeCost::IsRecorded(const graph::Graph& graph,
                             const graph::Program& program,
                             uint32_t op) const {
  return !recorded_.empty() && recorded_.Find(RecordedKey(graph, program, op)).has_value();
}

DurationNs ComputeCost::UnrecordedCopy(int64_t bytes, uint8_t flags) const {
  bool host = (flags & (graph::kHostToDevice | graph::kDeviceToHost)) != 0;
  auto size = static_cast<double>(bytes);
  return AtLeastFloor(host ? size / copy_bandwidth_ : BytesSeconds(2 * size));
}

DurationNs ComputeCost::UnrecordedMemset(int64_t bytes) const {
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

// Adds one iteration of a role's program to the report, for `ranks` ranks.
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
    if ((program.flags[op] & graph::kDurationFixed) != 0) {
      Count(RuleOf(program, op, "fixed"), ranks, program.value[op]);
    } else if (kind == graph::OpKind::kMemcpy) {
      Count(RuleOf(program, op, "copy"), ranks, cost_.Copy(program.value[op], program.flags[op]));
    } else if (kind == graph::OpKind::kMemset) {
      Count(RuleOf(program, op, "copy"), ranks, cost_.Memset(program.value[op]));
    } else if (kind == graph::OpKind::kKernel) {
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

  [[nodiscard]] const char* RuleOf(const graph::Program& program,
                                   uint32_t op,
                                   const char* otherwise) const {
    return cost_.IsRecorded(graph_, program, op) ? "recorded" : otherwise;
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
