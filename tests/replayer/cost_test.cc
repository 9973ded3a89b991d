// Costs of kernels and transfers (replayer/cost/), against worked numbers.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/cost/attention.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/cost/measured_kernels.h"
#include "replayer/cost/parameters.h"
#include "tests/support/one_kernel.h"
#include "tests/support/test_parameters.h"

namespace prism::replayer {
namespace {

using graph::CollectiveKind;

using prism::testing::kGap;
using prism::testing::OneKernel;

TEST(ComputeCost, matrix_product_takes_whole_waves) {
  graph::Graph graph = OneKernel("aten::mm", "gemm", {});
  graph.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e13);
  graph::MatmulShape& shape = graph.signatures[0].matmul;
  shape = {1280, 1280, 128, 1, DataType::kBfloat16, DataType::kBfloat16, false, false};
  // 10 x 10 tiles of 128 x 128: one wave of the 100 SMs. 2 · 1280² · 128 flop at 1e14 flop/s ·
  // 0.5 efficiency · 128 / (128 + 128) = 16,777.216 ns.
  EXPECT_EQ(CostSignatures(graph)[0].duration_ns, 16'778 + kGap);
  EXPECT_STREQ(CostSignatures(graph)[0].rule, "matmul");
  // One more column: two waves of such tiles would take 33,555 ns; five waves of quarter tiles at
  // 0.85 of the rate take 2 · 5 · 100 · 64² · 256 / 4.25e13 s.
  shape.n = 1281;
  EXPECT_EQ(CostSignatures(graph)[0].duration_ns, 24'673 + kGap);
}

TEST(ComputeCost, few_tiles_with_a_long_inner_loop_split_it) {
  graph::Graph graph = OneKernel("aten::mm", "gemm", {});
  graph.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e15);
  graph.cluster.parameters.SetValue("gpu.matmul_most_splits", 16);
  graph::MatmulShape& shape = graph.signatures[0].matmul;
  shape = {128, 128, 65536, 1, DataType::kBfloat16, DataType::kBfloat16, false, false};
  const DurationNs split = CostSignatures(graph)[0].duration_ns;
  graph.cluster.parameters.SetValue("gpu.matmul_most_splits", 1);
  const DurationNs unsplit = CostSignatures(graph)[0].duration_ns;
  shape.k = 1024;
  const DurationNs whole = CostSignatures(graph)[0].duration_ns;
  EXPECT_LT(split, whole * 20);
  EXPECT_GT(unsplit, whole * 50);
}

TEST(ComputeCost, rows_off_16_bytes_leave_the_matrix_units) {
  graph::Graph graph = OneKernel("aten::bmm", "gemm", {});
  graph.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e15);
  graph.cluster.parameters.SetValue("gpu.kernel_gap_ns", 0);
  graph.cluster.parameters.SetValue("gpu.matmul_misaligned_factor", 11);
  graph::MatmulShape& shape = graph.signatures[0].matmul;
  shape = {2048, 2048, 152, 64, DataType::kFloat16, DataType::kFloat16, true, false};
  const auto aligned = static_cast<double>(CostSignatures(graph)[0].duration_ns);
  shape.k = 150;
  const auto misaligned = static_cast<double>(CostSignatures(graph)[0].duration_ns);
  EXPECT_NEAR(misaligned / aligned, 11 * (150 + 128) / (152.0 + 128), 1e-3);
  shape.input = DataType::kFloat32;
  const auto short_rows = CostSignatures(graph)[0].duration_ns;
  shape.k = 152;
  EXPECT_LT(short_rows, CostSignatures(graph)[0].duration_ns);
}

TEST(ComputeCost, attention_counts_half_and_backward_two_and_a_half_times) {
  graph::TensorShape qkv = {DataType::kBfloat16, {2, 8, 1024, 64}};
  // 4 · 2 · 8 · 1024² · 64 / 2 flop at 1e14 · 0.5 = 42,949.67 ns.
  graph::Graph forward =
      OneKernel("aten::_scaled_dot_product_flash_attention", "flash_fwd_kernel", {qkv, qkv, qkv});
  graph::ClusterSpec saturated = forward.cluster;
  saturated.parameters.SetValue("gpu.hbm_bytes_per_s", 1e15);
  saturated.parameters.SetValue("gpu.attention_half_seq", 0);
  saturated.parameters.SetValue("gpu.attention_half_head_dim", 0);
  forward.cluster = saturated;
  EXPECT_EQ(CostSignatures(forward)[0].duration_ns, 42'950 + kGap);
  graph::Graph backward = OneKernel("aten::_scaled_dot_product_flash_attention_backward",
                                    "flash_bwd_dq_dk_dv_loop_kernel", {qkv, qkv, qkv, qkv});
  backward.cluster = saturated;
  EXPECT_EQ(CostSignatures(backward)[0].duration_ns, 107'375 + kGap);
  // The op's small kernels only move bytes.
  graph::Graph small = OneKernel("aten::_scaled_dot_product_flash_attention_backward",
                                 "flash_bwd_dot_do_o_kernel", {qkv, qkv, qkv, qkv});
  EXPECT_STRNE(CostSignatures(small)[0].rule, "attention");
}

// Split over the keys, as torch does if the heads do not fill the device; forward only.
std::string SplitFlashKernel(bool causal) {
  return std::string(
             "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, "
             "4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 64, 256, 4, "
             "cutlass::bfloat16_t> >, ") +
         (causal ? "true" : "false") + ", false, false, true, true, false, true, false>(params)";
}

std::string FlashKernel(bool causal) {
  return std::string(
             "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, "
             "false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, "
             "cutlass::bfloat16_t> >, false, ") +
         (causal ? "true" : "false") + ", false, false, true, true, false, false>(params)";
}

// A token that is decoded has few products, but all keys and values are read.
TEST(ComputeCost, attention_of_one_query_reads_its_cache) {
  const graph::TensorShape query = {DataType::kBfloat16, {32, 4, 1, 128}};
  const graph::TensorShape cache = {DataType::kBfloat16, {32, 4, 2000, 128}};
  const graph::Graph decoding = OneKernel("aten::_scaled_dot_product_flash_attention",
                                          "flash_fwd_splitkv_kernel", {query, cache, cache});
  const graph::Graph copy = OneKernel("aten::copy_", "elementwise_kernel", {cache, cache});
  EXPECT_EQ(CostSignatures(decoding)[0].duration_ns, CostSignatures(copy)[0].duration_ns);
  EXPECT_STREQ(CostSignatures(decoding)[0].rule, "attention");
}

// 32 heads of one query each, and keys that many blocks share: not 32 queries of one head.
TEST(ComputeCost, few_queries_are_told_from_heads) {
  const graph::TensorShape cache = {DataType::kBfloat16, {1, 4, 64'000, 128}};
  const auto time = [&](const graph::TensorShape& query, const char* kernel) {
    graph::Graph decoding =
        OneKernel("aten::_scaled_dot_product_flash_attention", kernel, {query, cache, cache});
    decoding.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e15);
    return CostSignatures(decoding)[0].duration_ns;
  };
  const graph::TensorShape one = {DataType::kBfloat16, {1, 32, 1, 128}};
  const graph::TensorShape same = {DataType::kBfloat16, {32, 32, 1, 128}};
  EXPECT_LT(time(one, "flash_fwd_splitkv_kernel"), time(one, "flash_fwd_kernel"));
  // With the SMs full, 32 sequences take 32 times as long.
  EXPECT_NEAR(static_cast<double>(time(same, "flash_fwd_splitkv_kernel") - kGap),
              32.0 * static_cast<double>(time(one, "flash_fwd_splitkv_kernel") - kGap), 64);
}

TEST(ComputeCost, attention_that_says_that_it_is_not_causal_counts_in_full) {
  const graph::TensorShape qkv = {DataType::kBfloat16, {2, 1024, 8, 64}};
  for (const auto& name : {FlashKernel, SplitFlashKernel}) {
    const auto duration = [&](bool causal) {
      const graph::Graph graph =
          OneKernel("aten::_flash_attention_forward", name(causal), {qkv, qkv, qkv});
      return static_cast<double>(CostSignatures(graph)[0].duration_ns - kGap);
    };
    EXPECT_NEAR(duration(false), 2 * duration(true), 2) << name(true);
  }
  // Nor is anything left out for a mask among the inputs.
  const auto efficient = [&](std::vector<graph::TensorShape> inputs) {
    return static_cast<double>(CostSignatures(OneKernel("aten::_efficient_attention_forward",
                                                        "fmha_cutlassF_bf16", std::move(inputs)))[0]
                                   .duration_ns -
                               kGap);
  };
  const graph::TensorShape mask = {DataType::kBfloat16, {2, 8, 1024, 1024}};
  EXPECT_NEAR(efficient({qkv, qkv, qkv, mask}), 2 * efficient({qkv, qkv, qkv}), 2);
}

TEST(ComputeCost, attention_that_does_not_say_whether_it_is_causal_is_told) {
  const graph::TensorShape qkv = {DataType::kBfloat16, {2, 1024, 8, 64}};
  const auto told = [&](const std::string& op, const std::string& kernel) {
    graph::Graph graph = OneKernel(op, kernel, {qkv, qkv, qkv});
    graph.roles.resize(1);
    graph::Program& program = graph.roles[0].program;
    program.kind.assign(3, graph::OpKind::kKernel);
    program.signature = {0, 0, 0};
    program.flags = {0, 0, graph::kDurationFixed};
    return MaskAssumptions(graph);
  };
  EXPECT_TRUE(told("aten::_flash_attention_forward", FlashKernel(true)).empty());
  EXPECT_TRUE(told("aten::mm", "gemm").empty());
  const auto lines = told("aten::_efficient_attention_forward",
                          "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(
      lines[0].substr(0, 88),
      "2 attention kernels of all roles' programs, fmha_cutlassF_bf16_aligned_64x64_rf_sm80 amo");
}

// Two sequences of 1,024 tokens, one after the other or side by side.
TEST(ComputeCost, packed_attention_is_that_of_its_sequences) {
  const graph::TensorShape apart = {DataType::kBfloat16, {2, 1024, 8, 64}};
  const graph::TensorShape packed = {DataType::kBfloat16, {2048, 8, 64}};
  const graph::TensorShape begins = {DataType::kInt32, {3}};
  for (const std::string op :
       {"aten::_flash_attention_forward", "aten::_flash_attention_backward"}) {
    const KernelCost expected =
        CostSignatures(OneKernel(op, FlashKernel(true), {apart, apart, apart, apart}))[0];
    const graph::Graph graph =
        OneKernel(op, FlashKernel(true), {packed, packed, packed, packed, begins, begins});
    EXPECT_STREQ(CostSignatures(graph)[0].rule, "attention");
    EXPECT_EQ(CostSignatures(graph)[0].duration_ns, expected.duration_ns);
  }
}

TEST(ComputeCost, grouped_products_are_as_many_products_as_groups) {
  graph::Graph product = OneKernel("aten::bmm", "gemm", {});
  const graph::TensorShape ends = {DataType::kInt32, {8}};
  const auto bf16 = [](std::vector<int64_t> dims) {
    return graph::TensorShape{DataType::kBfloat16, std::move(dims)};
  };
  const auto expect = [&](const graph::MatmulShape& shape,
                          const std::vector<graph::TensorShape>& inputs) {
    product.signatures[0].matmul = shape;
    const graph::Graph grouped = OneKernel("aten::_grouped_mm", "cutlass::device_kernel", inputs);
    EXPECT_STREQ(CostSignatures(grouped)[0].rule, "matmul");
    EXPECT_EQ(CostSignatures(grouped)[0].duration_ns, CostSignatures(product)[0].duration_ns);
  };
  constexpr DataType kType = DataType::kBfloat16;
  expect({2048, 512, 1024, 8, kType, kType}, {bf16({8 * 512, 1024}), bf16({8, 1024, 2048}), ends});
  expect({2048, 512, 1024, 8, kType, kType}, {bf16({512, 8 * 1024}), bf16({8 * 1024, 2048}), ends});
  expect({2048, 512, 1024, 8, kType, kType}, {bf16({8, 512, 1024}), bf16({1024, 8 * 2048}), ends});
  const graph::Graph small = OneKernel("aten::_grouped_mm", "prepare_grouped_gemm_data<float>",
                                       {bf16({4096, 1024}), bf16({8, 1024, 2048}), ends});
  EXPECT_STRNE(CostSignatures(small)[0].rule, "matmul");
}

// Weight gradients: the number of tokens of a group is not a row length in memory.
TEST(ComputeCost, grouped_products_of_any_number_of_tokens_cost_about_the_same) {
  const graph::TensorShape ends = {DataType::kInt32, {8}};
  const auto duration = [&](int64_t tokens) {
    const graph::Graph graph = OneKernel(
        "aten::_grouped_mm", "cutlass::device_kernel",
        {{DataType::kBfloat16, {4096, tokens}}, {DataType::kBfloat16, {tokens, 4096}}, ends});
    return static_cast<double>(CostSignatures(graph)[0].duration_ns);
  };
  const double even = duration(8 * 128);
  for (const int64_t tokens : {8 * 128 - 8, 8 * 128 - 24, 8 * 128 - 1}) {
    EXPECT_LE(duration(tokens), even) << tokens;
    EXPECT_GT(duration(tokens), 0.9 * even) << tokens;
  }
  EXPECT_GT(duration(3), 0);
}

TEST(ComputeCost, convolutions_are_products_over_what_a_filter_sees) {
  const graph::TensorShape input = {DataType::kBfloat16, {10, 16, 34, 34}};
  const graph::TensorShape weight = {DataType::kBfloat16, {128, 16, 3, 3}};
  const graph::TensorShape output = {DataType::kBfloat16, {10, 128, 32, 32}};
  graph::Graph product = OneKernel("aten::mm", "gemm", {});
  product.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e15);
  graph::MatmulShape& shape = product.signatures[0].matmul;
  shape = {10 * 32 * 32, 128, 16 * 9, 1, DataType::kBfloat16, DataType::kBfloat16, false, false};
  graph::Graph forward =
      OneKernel("cudnn::convolution.channels_last", "cudnn", {input, weight, output});
  forward.cluster = product.cluster;
  EXPECT_EQ(CostSignatures(forward)[0].duration_ns, CostSignatures(product)[0].duration_ns);
  EXPECT_STREQ(CostSignatures(forward)[0].rule, "convolution");
  graph::Graph backward = OneKernel("cudnn::convolution_backward_weight.channels_last", "cudnn",
                                    {input, weight, output});
  backward.cluster = product.cluster;
  shape = {128, 16 * 9, 10 * 32 * 32, 1, DataType::kBfloat16, DataType::kBfloat16, false, false};
  EXPECT_EQ(CostSignatures(backward)[0].duration_ns, CostSignatures(product)[0].duration_ns);
}

// Before and after a product of channels-last tensors they are read and written once more each; a
// GPU without such units has nothing to gain from it.
TEST(ComputeCost, convolutions_transpose_what_matrix_units_do_not_take) {
  const auto bytes_and_seconds = [](const char* op, double tf32) {
    const graph::TensorShape tensor = {DataType::kFloat32, {64, 256, 56, 56}};
    graph::Graph graph =
        OneKernel(op, "cudnn", {tensor, {DataType::kFloat32, {256, 256, 3, 3}}, tensor});
    graph.cluster.parameters.SetValue("gpu.peak_fp32_flops", 1e12);
    graph.cluster.parameters.SetValue("gpu.peak_tf32_flops", tf32);
    graph.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e12);
    graph.cluster.parameters.SetValue("gpu.hbm_efficiency", 1);
    return SecondsFromNs(CostSignatures(graph)[0].duration_ns);
  };
  const double moved = (2.0 * 64 * 256 * 56 * 56 + 256 * 256 * 9) * 4 / 1e12;
  EXPECT_NEAR(bytes_and_seconds("cudnn::convolution", 1e13),
              bytes_and_seconds("cudnn::convolution.channels_last", 1e13) + 2 * moved, 1e-8);
  EXPECT_EQ(bytes_and_seconds("cudnn::convolution", 1e12),
            bytes_and_seconds("cudnn::convolution.channels_last", 1e12));
}

// One filter per channel leaves nothing to the matrix units: bytes decide, at 1e12 per second.
TEST(ComputeCost, depthwise_convolutions_cost_their_bytes) {
  const graph::TensorShape tensor = {DataType::kFloat32, {10, 100, 100, 100}};
  graph::Graph graph = OneKernel("cudnn::convolution_backward_input", "cudnn",
                                 {tensor, {DataType::kFloat32, {100, 1, 3, 3}}, tensor});
  graph.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e12);
  graph.cluster.parameters.SetValue("gpu.hbm_efficiency", 1);
  EXPECT_EQ(CostSignatures(graph)[0].duration_ns, 80'004 + kGap);  // 2 · 40 MB + 3,600 bytes
}

TEST(ComputeCost, measured_kernels_go_before_the_model) {
  graph::TensorShape x = {DataType::kBfloat16, {2, 500, 1000}};
  graph::Graph graph = OneKernel("aten::gelu", "k", {x});
  graph.signatures.resize(3, graph.signatures[0]);
  // Column-major 1280 x 256: 256 rows, 1280 columns in row-major words.
  graph.signatures[1].matmul = {1280,  256,  128, 1, DataType::kBfloat16, DataType::kBfloat16,
                                false, false};
  graph.signatures[2].matmul = graph.signatures[1].matmul;
  graph.signatures[2].matmul.k = 256;
  for (const auto& [kind, sizes] : std::vector<std::pair<std::string, KernelSizes>>{
           {"gelu", {1000, 1000, 1, 1}}, {"matmul", {256, 1280, 128, 1}}}) {
    graph.cluster.parameters.Put(
        {{MeasuredKernelKey(kind, "bfloat16", sizes), 7777, "ns", "", {}}});
  }
  EXPECT_TRUE(CheckParameters(graph.cluster.parameters).empty());
  graph.roles.resize(1);
  for (uint32_t i = 0; i < 3; ++i) {
    graph.roles[0].program.Append({.kind = graph::OpKind::kKernel, .signature = i});
  }
  graph.ranks.role = {0, 0};
  const CostReport report = ReportCosts(graph);
  ASSERT_EQ(report.size(), 2U);
  EXPECT_EQ(report[0].rule, "matmul");
  EXPECT_EQ(report[0].ops, 2);
  EXPECT_EQ(report[1].rule, "measured");
  EXPECT_EQ(report[1].ops, 4);
  EXPECT_DOUBLE_EQ(report[1].seconds, 4 * 7777e-9);
}

// The gap to the next kernel comes on top, but for the own time of a kernel at its place.
TEST(ComputeCost, recorded_times_go_before_all) {
  graph::Graph graph = OneKernel("aten::gelu", "k", {{DataType::kBfloat16, {1000, 1000}}});
  graph.cluster.parameters.Put(
      {{MeasuredKernelKey("gelu", "bfloat16", {1000, 1000, 1, 1}), 7777, "ns", "", {}},
       {RecordedKernelKey(graph, graph.signatures[0]), 5000, "ns", "", {}},
       {RecordedCopyKey(64, graph::kHostToDevice), 3000, "ns", "", {}}});
  EXPECT_TRUE(CheckParameters(graph.cluster.parameters).empty());
  graph.roles.resize(1);
  graph::Program& program = graph.roles[0].program;
  program.Append({});
  program.Append({.flags = graph::kDurationFixed, .value = 9000});
  program.Append({.kind = graph::OpKind::kMemcpy, .flags = graph::kHostToDevice, .value = 64});
  program.Append({.kind = graph::OpKind::kMemcpy, .flags = graph::kDeviceToHost, .value = 64});
  graph.ranks.role = {0};
  const CostReport report = ReportCosts(graph);
  ASSERT_EQ(report.size(), 2U);
  EXPECT_EQ(report[1].rule, "recorded");
  EXPECT_NEAR(report[1].seconds, (5000 + 9000 + 3000 + 2 * kGap) * 1e-9, 1e-15);
}

TEST(ComputeCost, unknown_kernels_are_counted_as_such) {
  graph::TensorShape x = {DataType::kFloat32, {1000, 1000}};
  graph::Graph graph = OneKernel("custom::op", "mystery", {x});
  graph.roles.resize(1);
  graph::Program program;
  program.Append({.kind = graph::OpKind::kKernel});
  program.Append({.kind = graph::OpKind::kKernel, .flags = graph::kDurationFixed, .value = 5});
  graph.roles[0].program = program;
  graph.ranks.role = {0, 0, 0};
  CostReport report = ReportCosts(graph);
  ASSERT_EQ(report.size(), 2U);
  EXPECT_EQ(report[0].rule, "default");
  EXPECT_EQ(report[0].ops, 3);
  EXPECT_EQ(report[0].example, "custom::op: mystery");
  EXPECT_EQ(report[1].rule, "fixed");
  EXPECT_DOUBLE_EQ(report[1].seconds, 15e-9);
}

TEST(CollectiveCost, ring_is_latency_steps_and_bytes) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.parameters.SetValue("nccl.nvls_efficiency", 0);
  cluster.parameters.SetValue("nccl.ramp", 0);
  CollectiveCost cost(cluster);
  graph::CollectiveShape shape;
  shape.kind = CollectiveKind::kReduceScatter;
  shape.bytes = 100'000'000;
  // Two ranks of a node, Simple: 700 launch + 8,400 base + 1 step of 3,400 + 50 MB at 50 GB/s + the
  // pass over its own 100 MB at 100 GB/s, which takes 15 us more for each doubling beyond 16 MiB.
  const DurationNs pass = 1'000'000 + std::llround(15'000 * std::log2(1 + 1e8 / (16 << 20U)));
  EXPECT_EQ(cost.Collective(shape, {2, 1, 2, 1}), 1'000'000 + 12'500 + pass);
  // An all_reduce moves twice that in two steps.
  shape.kind = CollectiveKind::kAllReduce;
  EXPECT_EQ(cost.Collective(shape, {2, 1, 2, 1}), 2'000'000 + 15'900 + pass);
}

TEST(CollectiveCost, more_nodes_bytes_and_slow_links_never_help) {
  CollectiveCost cost(prism::testing::TestCluster());
  for (CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                              CollectiveKind::kBroadcast, CollectiveKind::kAllToAll}) {
    for (int64_t bytes = 1; bytes < int64_t{1} << 30U; bytes *= 8) {
      graph::CollectiveShape shape;
      shape.kind = kind;
      shape.bytes = bytes;
      DurationNs one_node = cost.Collective(shape, {2, 1, 2, 1});
      DurationNs two_nodes = cost.Collective(shape, {4, 2, 2, 1});
      EXPECT_LE(one_node, two_nodes) << static_cast<int>(kind) << " " << bytes;
      EXPECT_LT(two_nodes, cost.Collective(shape, {4, 2, 2, 2, std::nullopt, 0, 2}));
      shape.bytes *= 8;
      EXPECT_LE(two_nodes, cost.Collective(shape, {4, 2, 2, 1}));
    }
  }
}

TEST(CollectiveCost, gpus_that_share_a_nic_get_less_of_it) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("net.nics_per_node", 8);
  cluster.parameters.SetValue("net.shared_nic_factor", 0.5);
  const double own = CollectiveCost(cluster).NicBandwidth();
  cluster.parameters.SetValue("net.nics_per_node", 4);
  EXPECT_DOUBLE_EQ(CollectiveCost(cluster).NicBandwidth(), own / 2);
}

TEST(CollectiveCost, rings_that_cross_the_host_get_less_of_the_nics) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  graph::CollectiveShape shape;
  shape.bytes = int64_t{1} << 32;
  const auto network = [&](double factor, int32_t local) {
    cluster.parameters.SetValue("net.crossed_nic_factor", factor);
    return CollectiveCost(cluster).ShareOf(shape, {4 * local, 4, local}).network;
  };
  for (const int32_t local : {2, 4}) {
    EXPECT_DOUBLE_EQ(network(0.5, local), 2 * network(1, local)) << local;
  }
  for (const int32_t local : {1, 8}) {  // enters and leaves below the switch of its NIC
    EXPECT_DOUBLE_EQ(network(0.5, local), network(1, local)) << local;
  }
}

TEST(CollectiveCost, transfers_of_a_group_share_the_link) {
  using Reach = PeerLoad::Reach;
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("net.bandwidth_loss_per_doubling", 0);
  const CollectiveCost cost(cluster);
  const auto alone = [&](int64_t bytes, bool same_node) {
    return cost.PeerTransfer(bytes, same_node);
  };
  // Two sends of 3 and 1 MB inside the node: while both are in flight each has half of the link.
  EXPECT_EQ(cost.PeerTransfers(std::vector<PeerLoad>{{3'000'000, true, Reach::kNode},
                                                     {1'000'000, true, Reach::kNode},
                                                     {5'000'000, false, Reach::kNode},
                                                     {9'000'000, true, Reach::kSelf}}),
            (std::vector<DurationNs>{alone(4'000'000, true), alone(2'000'000, true),
                                     alone(5'000'000, true), alone(9'000'000, true)}));
  // In an even exchange each takes as long as the collective: 16 ranks on two nodes of 8.
  std::vector<PeerLoad> even;
  for (int peer = 0; peer < 16; ++peer) {
    const Reach reach = peer == 0 ? Reach::kSelf : peer < 8 ? Reach::kNode : Reach::kNetwork;
    even.push_back({1'000'000, true, reach});
  }
  const graph::CollectiveShape shape = {CollectiveKind::kAllToAll, DataType::kInt8,
                                        graph::ReduceOp::kNone, -1, 16'000'000};
  EXPECT_EQ(cost.PeerTransfers(even).back(), cost.Collective(shape, {16, 2, 8, 1}));
}

TEST(CollectiveCost, topology_counts_nodes_and_the_fullest_one) {
  std::vector<uint32_t> members = {0, 1, 2, 9, 17};
  EXPECT_EQ(TopologyOf(members, 8), (CommTopology{5, 3, 3, 1, std::nullopt, 2}));
}

TEST(Parameters, missing_and_unknown_keys_are_named) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  EXPECT_TRUE(CheckParameters(cluster.parameters).empty());
  std::vector<graph::Parameter> parameters = cluster.parameters.all();
  std::string lost = parameters.front().key;
  parameters.front().key = "gpu.nonsense";
  std::vector<std::string> faults = CheckParameters(graph::ParameterTable(parameters));
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_NE(faults[0].find(lost), std::string::npos);
  EXPECT_EQ(faults[1], "parameter gpu.nonsense is unknown");
}

TEST(Parameters, values_that_no_model_can_use_are_named) {
  const std::pair<const char*, double> kBad[] = {
      {"net.nics_per_node", 0},     {"gpu.hbm_bytes_per_s", -1},       {"host.kernel_ns", 1e300},
      {"gpu.matmul_efficiency", 0}, {"overlap.compute_slowdown", 0.9}, {"p2p.base_ns", NAN}};
  for (const auto& [key, value] : kBad) {
    graph::ClusterSpec cluster = prism::testing::TestCluster();
    cluster.parameters.SetValue(key, value);
    const std::vector<std::string> faults = CheckParameters(cluster.parameters);
    ASSERT_EQ(faults.size(), 1U) << key;
    EXPECT_NE(faults[0].find(key), std::string::npos) << faults[0];
  }
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.parameters.SetValue("nccl.nvls_efficiency", 0);  // no NVLS on this GPU
  EXPECT_TRUE(CheckParameters(cluster.parameters).empty());
}

TEST(Parameters, other_units_are_named) {
  std::vector<graph::Parameter> parameters = prism::testing::TestCluster().parameters.all();
  parameters.front().unit = "percent";
  const std::vector<std::string> faults = CheckParameters(graph::ParameterTable(parameters));
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_NE(faults[0].find("'percent'"), std::string::npos);
}

}  // namespace
}  // namespace prism::replayer
