// Execution traces of PyTorch beside profiles that lack shapes or show only some ranks of a group.
#include "slicer/import/kineto/execution_trace.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/kineto_profile.h"

namespace prism::slicer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kInputs = "[[3, 4, 0, 12, 2, \"cuda:0\"], [5, 6, 0, 20, 2, \"cuda:0\"]]";

// As of schema 1.1.1.
std::string Node(int number, const std::string& name, const std::string& shapes) {
  return fmt::format(
      "{{\"id\": {0}0, \"name\": \"{1}\", \"ctrl_deps\": 1, \"inputs\": {{\"values\": {3}, "
      "\"shapes\": {2}, \"types\": [\"Tensor(c10::BFloat16)\", \"Tensor(c10::BFloat16)\"]}}, "
      "\"outputs\": {{\"values\": [], \"shapes\": [[9, 9]], \"types\": [\"Tensor(float)\"]}}, "
      "\"attrs\": [{{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": {0}}}, "
      "{{\"name\": \"tid\", \"type\": \"uint64\", \"value\": 77}}]}}",
      number, name, shapes, kInputs);
}

// As up to schema 1.0.4.
std::string OlderNode(int number, const std::string& name, const std::string& shapes) {
  return fmt::format(
      "{{\"name\": \"{1}\", \"id\": 5, \"rf_id\": {0}, \"inputs\": {3}, \"input_shapes\": {2}, "
      "\"input_types\": [\"Tensor(c10::BFloat16)\", \"Tensor(c10::BFloat16)\"]}}",
      number, name, shapes, kInputs);
}

std::string Executed(const std::string& nodes) {
  return "{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 7, \"nodes\": [" + nodes + "]}";
}

// A step with one product, whose number is as given.
Profile Product(int number) {
  return Profile(0, 1)
      .Step(0, 200)
      .NumberedOp("aten::mm", 5, 20, number)
      .Call("cudaLaunchKernel", 10, 5)
      .Task("ampere_bf16_s16816gemm_bf16_128x128", 7, 20, 100);
}

// m × n × k of the graph's only product; "none" without one.
std::string ShapeIn(const Result<ImportResult>& result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  for (const graph::KernelSignature& kernel : result->graph.signatures) {
    if (kernel.matmul.m > 0) {
      return fmt::format("{} {} {}", kernel.matmul.m, kernel.matmul.n, kernel.matmul.k);
    }
  }
  return "none";
}

TEST(ExecutionTrace, gives_products_their_shapes) {
  const std::string profile = Product(12).Json();
  EXPECT_EQ(ShapeIn(Import({profile})), "none");
  const std::string shapes = "[[64, 128], [128, 256]]";
  EXPECT_EQ(ShapeIn(Import({profile, Executed(Node(12, "aten::mm", shapes))})), "256 64 128");
  EXPECT_EQ(ShapeIn(Import({Executed(OlderNode(12, "aten::mm", shapes)), profile})), "256 64 128");
}

TEST(ExecutionTrace, keys_may_be_sorted) {
  const std::string shapes = "[[64, 128], [128, 256]]";
  std::string executed = Executed(Node(12, "aten::mm", shapes));
  executed.insert(executed.find('{') + 1, "\"finish_ts\": 5, ");
  EXPECT_EQ(ShapeIn(Import({Product(12).Json(), executed})), "256 64 128");
}

TEST(ExecutionTrace, only_steps_that_were_traced_count) {
  const auto with = [](double traced_us) {
    return Profile(0, 1)
        .Step(0, 300)
        .NumberedOp("aten::mm", 5, 20, 1)
        .Call("cudaLaunchKernel", 10, 5)
        .Task("gemm", 7, 20, 100)
        .Step(300, 300, "ProfilerStep#4")
        .NumberedOp("aten::mm", 305, 20, 2)
        .Call("cudaLaunchKernel", 310, 5)
        .Task("gemm", 7, 320, traced_us)
        .Json();
  };
  const std::string executed = Executed(Node(2, "aten::mm", "[[64, 128], [128, 256]]"));
  const Result<ImportResult> result = Import({with(200), executed});
  EXPECT_EQ(ShapeIn(result), "256 64 128");
  KinetoChoice other;
  other.step = 3;
  EXPECT_EQ(ShapeIn(Import({with(200), executed}, 0, other)), "none");
}

TEST(ExecutionTrace, of_another_run_or_alone_is_refused) {
  const std::string shapes = "[[64, 128], [128, 256]]";
  const std::string profile = Product(12).Json();
  for (const std::string& other : {Node(13, "aten::mm", shapes), Node(12, "aten::bmm", shapes)}) {
    EXPECT_THAT(std::string(Import({profile, Executed(other)}).status().message()),
                HasSubstr("is not the execution trace of profile0"));
  }
  EXPECT_THAT(std::string(Import({Executed(Node(12, "aten::mm", shapes))}).status().message()),
              HasSubstr("without times"));
  EXPECT_THAT(
      std::string(Import({profile, "{\"schema\": \"1\", \"nodes\": [{]}"}).status().message()),
      AllOf(HasSubstr("profile1"), HasSubstr("byte ")));
}

// The group's ranks are shortened in the profile and no sequence of equal distances.
TEST(ExecutionTrace, groups_that_are_listed_are_complete) {
  const std::string noted =
      ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, "
      "\"dtype\": \"Float\", \"Group size\": 4, \"Process Group Name\": \"5\", "
      "\"Process Group Ranks\": \"[0, 1, ..., 7]\"";
  const auto reduce = [&] {
    return Profile(0, 8)
        .Step(0, 200)
        .Call("cudaLaunchKernel", 10, 5)
        .Task("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 7, 20, 100, noted);
  };
  EXPECT_FALSE(Import({reduce().Json()}).ok());
  const std::string list = "[{\"pg_name\": \"5\", \"pg_size\": 4, \"ranks\": [7, 1, 5, 0]}]";
  std::string quoted = list;
  for (size_t at = 0; (at = quoted.find('"', at)) != std::string::npos; at += 2) {
    quoted.insert(at, "\\");
  }
  const std::string executed =
      Executed("{\"id\": 4, \"name\": \"## process_group:init ##\", \"inputs\": {\"values\": [\"" +
               quoted + "\"], \"shapes\": [[]], \"types\": [\"String\"]}, \"attrs\": []}");
  for (const Result<ImportResult>& result :
       {Import({reduce().Groups(list).Json()}), Import({reduce().Json(), executed})}) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->graph.communicators.members_of(CommId(0)).size(), 4U);
  }
}

}  // namespace
}  // namespace prism::slicer
