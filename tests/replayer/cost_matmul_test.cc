// Products of matrices: which of their dimensions, splits and groups cost what.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/cost/compute_cost.h"
#include "tests/support/one_kernel.h"
#include "tests/support/test_parameters.h"

namespace prism::replayer {
namespace {

using prism::testing::OneKernel;

constexpr DataType kType = DataType::kBfloat16;

// One kernel on 100 SMs of 1e14 flop/s without gaps.
class CostMatmul : public ::testing::Test {
 protected:
  CostMatmul() {
    graph_.cluster = prism::testing::TestCluster();
    Set("gpu.kernel_gap_ns", 0);
    Set("gpu.kernel_floor_ns", 0);
    Set("gpu.hbm_efficiency", 1);
    Set("gpu.hbm_bytes_per_s", 1e15);
    Set("gpu.matmul_misaligned_factor", 1);
    graph_.strings = {"", "", ""};
    graph_.signatures.resize(1);
    graph_.signatures[0].framework_op = StringId(1);
    graph_.signatures[0].name = StringId(2);
  }

  void Set(const char* key, double value) { graph_.cluster.parameters.SetValue(key, value); }

  KernelCost Cost(const std::string& op,
                  const std::string& kernel,
                  std::vector<graph::TensorShape> inputs) {
    graph_.strings[1] = op;
    graph_.strings[2] = kernel;
    graph_.signatures[0].inputs = std::move(inputs);
    return CostSignatures(graph_)[0];
  }

  DurationNs Product(const graph::MatmulShape& shape) {
    graph_.signatures[0].matmul = shape;
    const DurationNs duration = Cost("aten::mm", "gemm", {}).duration_ns;
    graph_.signatures[0].matmul = {};
    return duration;
  }

  graph::Graph graph_;
};

// 8.6 has one unit for 64 bits where it has 64 for 32; a complex product is four real ones.
TEST_F(CostMatmul, double_precision_and_complex_products_go_by_their_units) {
  Set("gpu.matmul_half_k", 0);
  const auto time = [&](const char* kernel, DataType type) {
    graph_.signatures[0].matmul = {2048, 2048, 2048, 1, type, type};
    const auto ns = static_cast<double>(Cost("aten::mm", kernel, {}).duration_ns);
    graph_.signatures[0].matmul = {};
    return ns;
  };
  graph_.cluster.gpu.compute_major = 8;
  graph_.cluster.gpu.compute_minor = 0;
  const double single = time("cublasSgemm", DataType::kFloat32);
  EXPECT_NEAR(time("cublasDgemm", DataType::kFloat64) / single, 1, 1e-3);
  EXPECT_NEAR(time("cublasCgemm", DataType::kUnknown) / single, 4, 1e-3);
  graph_.cluster.gpu.compute_minor = 6;
  EXPECT_NEAR(time("cublasDgemm", DataType::kFloat64) / single, 64, 0.1);
  EXPECT_NEAR(time("cublasZgemm", DataType::kUnknown) / single, 256, 0.5);
}

// With a scale per row, libtorch launches CUTLASS's kernel itself.
TEST_F(CostMatmul, products_of_8_bits_are_products_in_either_library) {
  const graph::TensorShape a = {DataType::kFloat8, {1024, 4096}};
  const graph::TensorShape b = {DataType::kFloat8, {4096, 2048}};
  const KernelCost own = Cost("aten::_scaled_mm", "cutlass::Kernel2<sm89>", {a, b});
  EXPECT_STREQ(own.rule, "matmul");
  EXPECT_EQ(own.duration_ns,
            Product({2048, 1024, 4096, 1, DataType::kFloat8, DataType::kBfloat16}));
}

// max-autotune: what Inductor's template is given says its shape.
TEST_F(CostMatmul, templates_of_inductors_are_products) {
  const auto bf16 = [](std::vector<int64_t> dims) { return graph::TensorShape{kType, dims}; };
  const DurationNs product = Product({2048, 1024, 4096, 1, kType, kType});
  const auto time = [&](const char* name, std::vector<graph::TensorShape> inputs) {
    return Cost(std::string("fused::") + name, name, std::move(inputs)).duration_ns;
  };
  const graph::TensorShape result = bf16({1024, 2048});
  EXPECT_EQ(time("triton_tem_fused_mm_0", {bf16({1024, 4096}), bf16({4096, 2048}), result}),
            product);
  EXPECT_EQ(time("triton_tem_fused_addmm_1",
                 {bf16({2048}), bf16({1024, 4096}), bf16({2048, 4096}), result}),
            product);
  EXPECT_LT(time("triton_tem_fused_mm_0", {result, result, bf16({7, 7})}), product / 10);
}

// Rows of both operands are multiples of 16 bytes, those of the result are not.
TEST_F(CostMatmul, rows_of_the_result_count_for_alignment) {
  Set("gpu.matmul_misaligned_factor", 11);
  const auto aligned =
      static_cast<double>(Product({2048, 2048, 152, 64, kType, kType, true, false}));
  const auto misaligned =
      static_cast<double>(Product({2044, 2048, 152, 64, kType, kType, true, false}));
  EXPECT_NEAR(misaligned / aligned, 11, 1e-3);
}

// 16 partial sums of 128 x 128 floats are written and read: 2 MiB.
TEST_F(CostMatmul, a_split_costs_a_pass_over_its_sums) {
  Set("gpu.matmul_most_splits", 16);
  const graph::MatmulShape shape = {128, 128, 65536, 1, kType, kType, false, false};
  const DurationNs fast = Product(shape);
  Set("gpu.hbm_bytes_per_s", 5e11);
  EXPECT_NEAR(static_cast<double>(Product(shape) - fast), (2 << 20) / 500.0, 5);
}

TEST_F(CostMatmul, a_short_inner_loop_is_not_split) {
  const graph::MatmulShape shape = {128, 128, 1024, 1, kType, kType, false, false};
  Set("gpu.matmul_most_splits", 1);
  const DurationNs whole = Product(shape);
  Set("gpu.matmul_most_splits", 16);
  EXPECT_EQ(Product(shape), whole);
}

TEST_F(CostMatmul, the_first_flash_attention_takes_twice_the_second) {
  const graph::TensorShape qkv = {kType, {2, 1024, 8, 64}};
  const auto time = [&](const char* kernel) {
    return static_cast<double>(
        Cost("aten::_flash_attention_forward", kernel, {qkv, qkv, qkv}).duration_ns);
  };
  EXPECT_NEAR(time("flash_v1_fwd_kernel"), 2 * time("flash_fwd_kernel"), 2);
}

TEST_F(CostMatmul, a_product_of_no_groups_is_none) {
  const graph::TensorShape tokens = {kType, {4096, 1024}};
  const graph::TensorShape weights = {kType, {8, 1024, 2048}};
  const auto rule = [&](int64_t groups) {
    return std::string(Cost("aten::_grouped_mm", "cutlass::device_kernel",
                            {tokens, weights, {DataType::kInt32, {groups}}})
                           .rule);
  };
  EXPECT_EQ(rule(8), "matmul");
  EXPECT_NE(rule(0), "matmul");
}

// Three colours are few channels, but one group: a product whose inner loop is short.
TEST_F(CostMatmul, a_convolution_of_a_picture_is_a_product) {
  const KernelCost convolution =
      Cost("cudnn::convolution.channels_last", "cudnn",
           {{kType, {10, 3, 34, 34}}, {kType, {128, 3, 3, 3}}, {kType, {10, 128, 32, 32}}});
  EXPECT_STREQ(convolution.rule, "convolution");
  EXPECT_EQ(convolution.duration_ns,
            Product({10 * 32 * 32, 128, 3 * 9, 1, kType, kType, false, false}));
}

// 4/3 n³ at 0.35 of a product's rate, and a step for each column; a product of fp32 that may not
// be rounded takes as long as outside of matrix units.
TEST(ComputeCost, factorisations_take_longer_than_their_products) {
  const auto seconds = [](const char* kernel, int64_t n) {
    graph::Graph graph = OneKernel("aten::linalg", kernel, {{DataType::kFloat32, {4, n, n}}});
    graph.cluster.parameters.SetValue("gpu.peak_fp32_flops", 1e13);
    graph.cluster.parameters.SetValue("gpu.matmul_fp32_efficiency", 1);
    return SecondsFromNs(CostSignatures(graph)[0].duration_ns);
  };
  EXPECT_NEAR(seconds("cusolverDnXgeqrf", 1024), 4.0 / 3 * 0x1p30 / 3.5e12 + 1024 * 3.5e-6, 1e-6);
  EXPECT_GT(seconds("cusolverDnXsyevd", 1024), 0.03);
  EXPECT_GT(seconds("cusolverDnSgetrfBatched", 8192), 3.9 * 2 / 3 * 0x1p39 / 3.5e12);
}

TEST(ComputeCost, convolutions_of_fp32_are_rounded_unless_forbidden) {
  const graph::TensorShape tensor = {DataType::kFloat32, {64, 256, 56, 56}};
  const auto seconds = [&](const char* op) {
    graph::Graph graph =
        OneKernel(op, "cudnn", {tensor, {DataType::kFloat32, {256, 256, 3, 3}}, tensor});
    graph.cluster.parameters.SetValue("gpu.peak_fp32_flops", 1e13);
    graph.cluster.parameters.SetValue("gpu.peak_tf32_flops", 1e14);
    return SecondsFromNs(CostSignatures(graph)[0].duration_ns);
  };
  EXPECT_GT(seconds("cudnn::convolution.fp32"), 5 * seconds("cudnn::convolution.channels_last"));
  EXPECT_EQ(seconds("cudnn::convolution.fp32"), seconds("cudnn::convolution.channels_last.fp32"));
}

}  // namespace
}  // namespace prism::replayer
