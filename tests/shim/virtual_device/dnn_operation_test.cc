// Attention and convolution as cuDNN's front end describes them, built through the API by hand.
#include "shim/virtual_device/dnn_operation.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "shim/virtual_device/dnn_descriptor.h"

namespace prism::shim {
namespace {

// Descriptors refer to each other and are destroyed after all tests.
class Descriptors {
 public:
  ~Descriptors() {
    for (const cudnnBackendDescriptor_t descriptor : made_) {
      cudnnBackendDestroyDescriptor(descriptor);
    }
  }
  cudnnBackendDescriptor_t Make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t descriptor = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(type, &descriptor), CUDNN_STATUS_SUCCESS);
    made_.push_back(descriptor);
    return descriptor;
  }

 private:
  std::vector<cudnnBackendDescriptor_t> made_;
};

cudnnBackendDescriptor_t Create(cudnnBackendDescriptorType_t type) {
  static Descriptors descriptors;
  return descriptors.Make(type);
}

void Name(cudnnBackendDescriptor_t descriptor,
          cudnnBackendAttributeName_t name,
          std::vector<cudnnBackendDescriptor_t> others) {
  EXPECT_EQ(cudnnBackendSetAttribute(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     static_cast<int64_t>(others.size()), others.data()),
            CUDNN_STATUS_SUCCESS);
}

cudnnBackendDescriptor_t Tensor(std::vector<int64_t> dims,
                                std::vector<int64_t> strides = {},
                                cudnnDataType_t type = CUDNN_DATA_BFLOAT16) {
  cudnnBackendDescriptor_t tensor = Create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                           static_cast<int64_t>(dims.size()), dims.data());
  cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
                           static_cast<int64_t>(strides.size()), strides.data());
  return tensor;
}

cudnnBackendDescriptor_t Product(std::vector<int64_t> a, std::vector<int64_t> b) {
  cudnnBackendDescriptor_t product = Create(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  Name(product, CUDNN_ATTR_OPERATION_MATMUL_ADESC, {Tensor(std::move(a))});
  Name(product, CUDNN_ATTR_OPERATION_MATMUL_BDESC, {Tensor(std::move(b))});
  return product;
}

const DnnDescriptor& Graph(std::vector<cudnnBackendDescriptor_t> operations) {
  cudnnBackendDescriptor_t graph = Create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  Name(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, std::move(operations));
  return *static_cast<const DnnDescriptor*>(graph);
}

// Batch 2, 8 query heads over 2 key heads, 512 queries, 1,024 keys, dimension 128.
const std::vector<int64_t> kQuery = {2, 8, 512, 128};
const std::vector<int64_t> kKeyTransposed = {2, 2, 128, 1024};
const std::vector<int64_t> kKey = {2, 2, 1024, 128};
const std::vector<int64_t> kScores = {2, 8, 512, 1024};

TEST(DnnOperation, two_products_are_forward) {
  const auto found = FindOperation(
      Graph({Product(kQuery, kKeyTransposed), Create(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR),
             Create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR), Product(kScores, kKey)}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->op, "cudnn::scaled_dot_product_attention");
  ASSERT_EQ(found->inputs.size(), 3U);
  EXPECT_EQ(found->inputs[0].dims, kQuery);
  EXPECT_EQ(found->inputs[1].dims, kKey);
  EXPECT_EQ(found->inputs[2].dims, kKey);
  EXPECT_EQ(found->inputs[0].dtype, DataType::kBfloat16);
}

TEST(DnnOperation, five_products_are_backward_with_the_gradient_first) {
  const auto product = Product(kQuery, kKeyTransposed);
  const auto found = FindOperation(Graph({product, product, product, product, product}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->op, "cudnn::scaled_dot_product_attention_backward");
  ASSERT_EQ(found->inputs.size(), 4U);
  EXPECT_EQ(found->inputs[0].dims, kQuery);
  EXPECT_EQ(found->inputs[2].dims, kKey);
}

// libtorch's own op does not have the size of the output.
TEST(DnnOperation, convolutions_say_more_than_the_framework) {
  cudnnBackendDescriptor_t convolution =
      Create(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, {Tensor({8, 16, 32, 32})});
  Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, {Tensor({64, 16, 3, 3})});
  Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, {Tensor({8, 64, 15, 15})});
  const auto found = FindOperation(Graph({convolution}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->op, "cudnn::convolution_backward_input");
  EXPECT_TRUE(found->replaces_framework_op);
  ASSERT_EQ(found->inputs.size(), 3U);
  EXPECT_EQ(found->inputs[0].dims, (std::vector<int64_t>{8, 16, 32, 32}));
  EXPECT_EQ(found->inputs[2].dims, (std::vector<int64_t>{8, 64, 15, 15}));
}

TEST(DnnOperation, convolutions_say_whether_channels_are_last) {
  const auto op = [](std::vector<int64_t> strides) {
    cudnnBackendDescriptor_t convolution =
        Create(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
         {Tensor({8, 16, 32, 32}, std::move(strides))});
    Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, {Tensor({64, 16, 3, 3})});
    Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, {Tensor({8, 64, 30, 30})});
    return FindOperation(Graph({convolution}))->op;
  };
  EXPECT_EQ(op({16 * 1024, 1, 32 * 16, 16}), "cudnn::convolution.channels_last");
  EXPECT_EQ(op({16 * 1024, 1024, 32, 1}), "cudnn::convolution");
}

TEST(DnnOperation, other_graphs_are_none) {
  EXPECT_FALSE(FindOperation(Graph({})).has_value());
  EXPECT_FALSE(FindOperation(Graph({Product(kQuery, kKeyTransposed)})).has_value());
  EXPECT_FALSE(
      FindOperation(Graph({Product({4, 4}, {4, 4}), Product({4, 4}, {4, 4})})).has_value());
}

// The plan is made from heuristics' results, without access to the graph.
TEST(DnnOperation, a_plan_keeps_the_context_of_its_graph) {
  const DnnDescriptor& graph = Graph({Product(kQuery, kKeyTransposed), Product(kScores, kKey)});
  auto* const opaque = const_cast<DnnDescriptor*>(&graph);
  EXPECT_EQ(cudnnBackendFinalize(opaque), CUDNN_STATUS_SUCCESS);
  EXPECT_NE(graph.context, 0U);
  cudnnBackendDescriptor_t heuristics = Create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Name(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {opaque});
  cudnnBackendFinalize(heuristics);
  cudnnBackendDescriptor_t config = Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  int64_t count = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &config),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 1);
  cudnnBackendDescriptor_t plan = Create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Name(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {config});
  cudnnBackendFinalize(plan);
  EXPECT_EQ(static_cast<DnnDescriptor*>(plan)->context, graph.context);
}

// Two engines, of which callers who allow no TF32 leave the one out that notes matrix units.
TEST(DnnOperation, convolutions_of_fp32_have_an_engine_without_tf32) {
  const auto tensor = [](std::vector<int64_t> dims) {
    return Tensor(std::move(dims), {}, CUDNN_DATA_FLOAT);
  };
  cudnnBackendDescriptor_t convolution =
      Create(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, {tensor({8, 16, 32, 32})});
  Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, {tensor({64, 16, 3, 3})});
  Name(convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, {tensor({8, 64, 30, 30})});
  auto* const graph = const_cast<DnnDescriptor*>(&Graph({convolution}));
  cudnnBackendFinalize(graph);
  EXPECT_EQ(WithoutTf32(*FindOperation(*graph))->op, "cudnn::convolution.fp32");
  cudnnBackendDescriptor_t heuristics = Create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Name(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {graph});
  cudnnBackendFinalize(heuristics);
  cudnnBackendDescriptor_t configs[] = {Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                                        Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)};
  int64_t count = 0;
  cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                           2, &count, static_cast<void*>(configs));
  ASSERT_EQ(count, 2);
  uint32_t contexts[2] = {};
  for (int i = 0; i < 2; ++i) {
    cudnnBackendDescriptor_t engine = Create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendGetAttribute(configs[i], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                             1, &count, static_cast<void*>(&engine));
    cudnnBackendNumericalNote_t note = CUDNN_NUMERICAL_NOTE_FFT;
    cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 1,
                             &count, &note);
    EXPECT_EQ(count, i == 0 ? 1 : 0);
    EXPECT_EQ(note, i == 0 ? CUDNN_NUMERICAL_NOTE_TENSOR_CORE : CUDNN_NUMERICAL_NOTE_FFT);
    contexts[i] = static_cast<DnnDescriptor*>(engine)->context;
  }
  EXPECT_EQ(contexts[0], graph->context);
  EXPECT_EQ(contexts[1], graph->exact_context);
  EXPECT_NE(contexts[0], contexts[1]);
}

}  // namespace
}  // namespace prism::shim
