// How many bytes memory-bound kernels move, by op and shapes, and what that takes.
#include "replayer/cost/kernel_rules.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/cost/compute_cost.h"
#include "tests/support/one_kernel.h"

namespace prism::replayer {
namespace {

using prism::testing::kGap;
using prism::testing::OneKernel;

// 500 rows of 4,000 bytes out of a million, at 50 GB/s; what is shorter takes the floor.
TEST(KernelRules, ops_with_an_index_cost_what_they_pick) {
  const graph::TensorShape table = {DataType::kFloat32, {1'000'000, 1000}};
  const graph::TensorShape indices = {DataType::kInt64, {500}};       // 4,000 bytes
  const graph::TensorShape rows = {DataType::kFloat32, {500, 1000}};  // 2 MB
  const graph::TensorShape bags = {DataType::kInt64, {50}};
  const auto time = [](const char* op, std::vector<graph::TensorShape> inputs,
                       const char* kernel = "k") {
    return CostSignatures(OneKernel(op, kernel, std::move(inputs)))[0].duration_ns - kGap;
  };
  for (const char* op : {"aten::index_add_", "aten::index_reduce_"}) {
    EXPECT_EQ(time(op, {table, indices, rows}), 120'080) << op;
  }
  for (const char* op : {"aten::index_copy_", "aten::index_put_", "aten::_index_put_impl_"}) {
    EXPECT_EQ(time(op, {table, indices, rows}), 80'080) << op;
  }
  for (const char* op : {"aten::index_select", "aten::index", "aten::embedding"}) {
    EXPECT_EQ(time(op, {table, indices}), 80'080) << op;
  }
  EXPECT_EQ(time("aten::index_fill_", {table, indices}), 40'080);
  EXPECT_EQ(time("aten::_index_put_impl_", {table, indices, rows}, "indexing_backward_kernel"),
            120'080);
  EXPECT_EQ(time("aten::_index_put_impl_", {table, indices, rows}, "DeviceRadixSortOnesweep"),
            kGap);
  // Each bag of ten rows is written once.
  EXPECT_EQ(time("aten::_embedding_bag", {table, indices, bags}), 44'080);
  EXPECT_EQ(time("aten::embedding_dense_backward", {rows, indices}), 80'080);
  // Its index is expanded to the rows; a kernel for whole rows reads it once per row.
  const graph::TensorShape expanded = {DataType::kInt64, {500, 1000}};
  EXPECT_EQ(time("aten::gather", {table, expanded}, "vectorized_gather_kernel"), 80'080);
  EXPECT_EQ(time("aten::scatter_reduce_", {table, expanded, rows}), 200'000);
  // The rows of a matrix of matrices, and of one that two indices walk.
  const graph::TensorShape deep = {DataType::kFloat32, {1000, 100, 1000}};
  EXPECT_EQ(time("aten::index", {deep, {DataType::kInt64, {5}}}), 80'001);
  EXPECT_EQ(time("aten::index", {deep, indices, indices}), 80'080);
  EXPECT_EQ(time("aten::take", {table, indices}), kGap);
}

TEST(KernelRules, memory_bound_kernels_cost_their_bytes) {
  graph::TensorShape x = {DataType::kFloat32, {1000, 1000}};  // 4 MB; 50 GB/s achieved
  // Two inputs read and one output written.
  EXPECT_EQ(CostSignatures(OneKernel("aten::add", "k", {x, x}))[0].duration_ns, 240'000 + kGap);
  // In place: the same traffic.
  EXPECT_EQ(CostSignatures(OneKernel("aten::add_", "k", {x, x}))[0].duration_ns, 240'000 + kGap);
  EXPECT_EQ(CostSignatures(OneKernel("aten::copy_", "k", {x, x}))[0].duration_ns, 160'000 + kGap);
  EXPECT_EQ(CostSignatures(OneKernel("aten::zero_", "k", {x}))[0].duration_ns, 80'000 + kGap);
  EXPECT_EQ(CostSignatures(OneKernel("aten::sum", "k", {x}))[0].duration_ns, 80'000 + kGap);
  graph::TensorShape indices = {DataType::kInt64, {100}};
  // 100 rows of 4,000 bytes read and written, and 800 bytes of indices.
  EXPECT_EQ(CostSignatures(OneKernel("aten::embedding", "k", {x, indices}))[0].duration_ns,
            16'016 + kGap);
}

// Shapes that are broadcast against each other make a larger output; small kernels of an op keep
// its statistics; reductions write next to nothing, whatever their name; random numbers are
// written.
TEST(KernelRules, kernels_cost_what_their_threads_touch) {
  const graph::TensorShape x = {DataType::kFloat32, {1000, 1000}};
  const graph::TensorShape column = {DataType::kFloat32, {1000, 1}};
  const graph::TensorShape row = {DataType::kFloat32, {1000}};
  const auto time = [](const char* op, const char* kernel, std::vector<graph::TensorShape> inputs,
                       uint32_t blocks = 0) {
    graph::Graph graph = OneKernel(op, kernel, std::move(inputs));
    graph.signatures[0].grid = {blocks, 1, 1};
    graph.signatures[0].block = {128, 1, 1};
    return CostSignatures(graph)[0].duration_ns - kGap;
  };
  constexpr DurationNs kOnce = 80'000;
  for (const char* op : {"aten::mul", "aten::atan2"}) {
    EXPECT_EQ(time(op, "void elementwise_kernel<128, 2>", {column, row}, 1954), kOnce + 160) << op;
  }
  EXPECT_EQ(time("aten::native_batch_norm", "void vectorized_elementwise_kernel<4>", {x}, 1), kGap);
  EXPECT_EQ(time("aten::native_group_norm", "void RowwiseMomentsCUDAKernel<float>", {x}, 8), kOnce);
  EXPECT_EQ(time("aten::var_mean", "void reduce_kernel<512, 1>", {x}, 1000), kOnce);
  EXPECT_EQ(time("aten::exponential_", "distribution", {x}, 1056), kOnce);
  EXPECT_EQ(time("aten::upsample_bilinear2d", "upsample", {row, x}, 4), kOnce + 80);
  // A block per pair of rows.
  EXPECT_EQ(time("aten::_cdist_forward", "cdist", {row, row}, 1'000'000), 128 * kOnce);
}

TEST(KernelRules, an_op_too_long_for_32_bits_is_halved_unless_it_does_not_iterate) {
  const graph::TensorShape whole = {DataType::kFloat16, {1 << 29}};
  const graph::TensorShape twice = {DataType::kFloat16, {1 << 30}};
  const auto time = [](const char* op, const graph::TensorShape& shape) {
    return SecondsFromNs(CostSignatures(OneKernel(op, "k", {shape}))[0].duration_ns - kGap);
  };
  for (const char* op : {"aten::gelu", "aten::native_dropout_backward"}) {
    EXPECT_NEAR(time(op, twice), time(op, whole), 1e-8) << op;  // each of two kernels takes half
  }
  EXPECT_NEAR(time("aten::native_dropout", twice), 2 * time("aten::native_dropout", whole), 1e-8);
}

TEST(KernelRules, fused_kernels_move_the_tensors_that_they_list) {
  graph::TensorShape x = {DataType::kFloat32, {1000, 1000}};
  EXPECT_EQ(CostSignatures(OneKernel("fused::bias_dropout_add", "k", {x, x, x}))[0].duration_ns,
            240'000 + kGap);
}

// A torch.autograd.Function's backward op has only the output's gradient for an input.
TEST(KernelRules, attention_of_an_autograd_function_is_told_by_its_name) {
  const graph::TensorShape x = {DataType::kBfloat16, {2, 1024, 8, 64}};
  const auto time = [&](const char* op, const char* kernel, int inputs) {
    graph::Graph graph = OneKernel(op, kernel, std::vector(static_cast<size_t>(inputs), x));
    graph.cluster.parameters.SetValue("gpu.hbm_bytes_per_s", 1e13);
    return static_cast<double>(CostSignatures(graph)[0].duration_ns - kGap);
  };
  const double forward = time("FlashAttnFunc", "_attn_fwd", 3);
  EXPECT_NEAR(forward, time("aten::_flash_attention_forward", "flash_fwd_kernel", 3), 1);
  const double backward = time("FlashAttnFuncBackward", "_attn_bwd", 1);
  EXPECT_NEAR(backward, time("aten::_flash_attention_backward", "flash_bwd_kernel", 4), 1);
  EXPECT_NEAR(time("_attentionBackward", "_attn_bwd_dkdv", 1), backward * 4 / 5, 1);
  EXPECT_NEAR(time("_attentionBackward", "_attn_bwd_dq", 1), backward * 3 / 5, 1);
  EXPECT_NEAR(time("FlashAttnFunc", "_fwd_kernel", 3), 2 * forward, 1);
  EXPECT_LT(time("FlashAttnFuncBackward", "_bwd_preprocess_do_o_dot", 1), backward / 4);
  EXPECT_LT(time("fused::triton_poi_fused__scaled_dot_product_flash_attention_clone_0",
                 "triton_poi_fused__scaled_dot_product_flash_attention_clone_0", 3),
            forward / 4);
  EXPECT_NEAR(
      time("fused::triton_tem_fused_flex_attention_4", "triton_tem_fused_flex_attention_4", 3),
      forward, 1);
  EXPECT_NEAR(time("fused::triton_tem_fused_flex_attention_backward_1",
                   "triton_tem_fused_flex_attention_backward_1", 5),
              backward * 3.5 / 2.5, 1);
  // The output of split keys is as small as the queries, however long the cache.
  const graph::Graph combine =
      OneKernel("aten::_flash_attention_forward", "flash_fwd_splitkv_combine_kernel",
                {{DataType::kBfloat16, {1, 1, 8, 64}}, {DataType::kBfloat16, {1, 1 << 20, 8, 64}}});
  EXPECT_LT(CostSignatures(combine)[0].duration_ns, 10'000);
  EXPECT_LT(time("MyAttention", "at::native::vectorized_elementwise_kernel", 3), forward / 4);
}

// The tensor takes 80,000 ns to read once; kernels that keep count beside it have one block.
TEST(KernelRules, kernels_that_only_keep_count_cost_their_launch) {
  const auto time = [](const char* op, const char* kernel) {
    graph::Graph graph = OneKernel(op, kernel, {{DataType::kFloat32, {1000, 1000}}});
    graph.signatures[0].grid = {1, 1, 1};
    graph.signatures[0].block = {256, 1, 1};
    return CostSignatures(graph)[0].duration_ns - kGap;
  };
  EXPECT_EQ(time("aten::topk", "mbtopk::computeBlockDigitCounts"), 100'000);
  EXPECT_EQ(time("aten::native_batch_norm", "batch_norm_collect_statistics_kernel"), 80'000);
  EXPECT_EQ(time("aten::native_batch_norm", "batch_norm_transform_input_kernel"), 160'000);
  for (const auto& [op, kernel] : std::initializer_list<std::pair<const char*, const char*>>{
           {"aten::topk", "mbtopk::computeDigitCumSum"},
           {"aten::topk", "at::native::bitonicSortKVInPlace"},
           {"aten::nonzero", "DeviceReduceSingleTileKernel"},
           {"aten::native_batch_norm", "elementwise_kernel<batch_norm_calc_invstd>"}}) {
    EXPECT_LE(time(op, kernel), kGap) << kernel;
  }
}

// 10 blocks of a chunk of 65,536 elements of 4 bytes each, at 50 GB/s.
TEST(KernelRules, kernels_over_lists_move_the_lists_that_their_functor_names) {
  const auto passes = [](const std::string& functor) {
    const graph::TensorShape list = {DataType::kFloat32, {1'000'000}};
    graph::Graph graph = OneKernel(
        "aten::_foreach_op_",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<3>, "
        "at::native::(anonymous namespace)::" +
            functor + " >(TensorListMetadata<3>, " + functor + ")",
        {list, list, list, list});
    graph.signatures[0].grid = {10, 1, 1};
    graph.signatures[0].block = {512, 1, 1};
    const auto ns = static_cast<double>(CostSignatures(graph)[0].duration_ns - kGap);
    return ns / (10 * 65536 * 4 / 50.0);
  };
  EXPECT_NEAR(passes("BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>"), 2, 1e-3);
  EXPECT_NEAR(passes("UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt<float>"), 2, 1e-3);
  EXPECT_NEAR(passes("TernaryOpScalarFunctor<float, 2, 2, 0>, LerpFunctor<float>"), 3, 1e-3);
  EXPECT_NEAR(passes("PointwiseOpScalarFunctor<float, 3, 3, 0>, std::divides<float>"), 4, 1e-3);
  EXPECT_NEAR(passes("FusedAdamMathFunctor<float, 4, (ADAM_MODE)0, false>"), 7, 1e-3);
  EXPECT_NEAR(passes("FusedSgdMathFunctor<float, 3>"), 5, 1e-3);
  EXPECT_NEAR(passes("LpNormFunctor<float, (NormType)1, float, 1, 1, 0>"), 1, 1e-3);
}

// Its inputs are those of the whole region that was compiled; 4,096 blocks of 128 threads have
// 4,194,304 elements.
TEST(KernelRules, a_kernel_of_inductors_is_timed_by_its_launch) {
  const auto time = [](const std::string& name, std::vector<graph::TensorShape> inputs) {
    graph::Graph graph = OneKernel("CompiledFunction", name, std::move(inputs));
    graph.signatures[0].grid = {4'096, 1, 1};
    graph.signatures[0].block = {128, 1, 1};
    return CostSignatures(graph)[0].duration_ns;
  };
  const graph::TensorShape weights = {DataType::kFloat32, {50'304, 4'096}};
  const graph::TensorShape elements = {DataType::kBfloat16, {2'048, 2'048}};
  EXPECT_EQ(time("triton_poi_fused_gelu_view_10", {weights}), time("mystery", {elements}));
  EXPECT_EQ(time("triton_per_fused_native_layer_norm_1", {weights}),
            time("triton_per_fused_native_layer_norm_1", {elements}));
  EXPECT_GT(time("triton_per_fused_native_layer_norm_1", {weights}),
            time("triton_poi_fused_gelu_view_10", {weights}));
}

}  // namespace
}  // namespace prism::replayer
