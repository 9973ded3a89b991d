// What axes are called (slicer/probe/axis_names.h).
#include "slicer/probe/axis_names.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slicer/workloads/program_builder.h"

namespace prism::slicer {
namespace {

using graph::Fragment;
using ::testing::ElementsAre;

constexpr uint16_t kCompute = 0;
constexpr uint16_t kSide = 1;
constexpr graph::CollectiveShape kSum = {graph::CollectiveKind::kAllReduce, DataType::kFloat32,
                                         graph::ReduceOp::kSum, -1, 4096};

// A rank of 2 × 4 ranks with a group along each axis.
struct Groups {
  ProgramBuilder* builder;
  uint16_t inner;
  uint16_t outer;

  void Multiply() const { builder->Kernel(kCompute, "gemm", 100, {.m = 8, .n = 8, .k = 8}); }
  void Reduce(uint16_t group, uint16_t stream = kSide) const {
    builder->Order(kCompute, stream);
    builder->Collective(stream, group, kSum);
  }
};

std::vector<std::string> NamesOf(const std::string& inner,
                                 const std::string& outer,
                                 const std::function<void(const Groups&)>& program = {},
                                 const graph::ParallelSizes& given = {.dp = 8}) {
  ProgramBuilder builder(Rank(0), 2);
  const Groups groups = {&builder, builder.CommSlot(inner, {Rank(0), Rank(1)}),
                         builder.CommSlot(outer, {Rank(0), Rank(2), Rank(4), Rank(6)})};
  if (program) {
    program(groups);
  }
  const Fragment rank = builder.Finish();
  std::vector<std::string> names;
  for (const graph::GridAxis& axis : NameAxes({{"", 2}, {"", 4}}, given, {&rank})) {
    names.push_back(axis.name);
  }
  return names;
}

TEST(AxisNames, are_those_of_groups) {
  EXPECT_THAT(NamesOf("TENSOR_MODEL_PARALLEL_GROUP", "mesh_dp_shard"), ElementsAre("tp", "dp"));
  EXPECT_THAT(NamesOf("mesh_dp", "DATA_PARALLEL_GROUP_WITH_CP"), ElementsAre("dp", "dp_2"));
}

TEST(AxisNames, of_one_kind_come_before_those_of_several) {
  ProgramBuilder builder(Rank(0), 1);
  builder.CommSlot("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", {Rank(0), Rank(1)});
  const Fragment first = builder.Finish();
  ProgramBuilder another(Rank(0), 1);
  another.CommSlot("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", {Rank(0), Rank(1)});
  another.CommSlot("EXPERT_MODEL_PARALLEL_GROUP", {Rank(0), Rank(1)});
  const Fragment second = another.Finish();
  EXPECT_EQ(NameAxes({{"", 2}}, {.dp = 2}, {&first}).front().name, "tp");
  EXPECT_EQ(NameAxes({{"", 2}}, {.dp = 2}, {&first, &second}).front().name, "ep");
}

TEST(AxisNames, follow_what_the_user_gave_where_groups_have_none) {
  EXPECT_THAT(NamesOf("a", "b", {}, {.tp = 2, .dp = 4}), ElementsAre("tp", "dp"));
  EXPECT_THAT(NamesOf("a", "b", {}, {.tp = 2, .cp = 4}), ElementsAre("tp", "cp"));
  EXPECT_THAT(NamesOf("a", "b", {}, {.dp = 2, .pp = 4}), ElementsAre("dp", "pp"));
  EXPECT_THAT(NamesOf("mesh_dp", "b", {}, {.tp = 2, .dp = 4}), ElementsAre("dp", "dp_2"));
  const Fragment alone;
  EXPECT_EQ(NameAxes({{"", 2}, {"", 4}}, {.tp = 2, .dp = 4}, {&alone}).front().name, "dp");
}

// Reductions that the next product waits for, on a stream of their own or on its own stream.
TEST(AxisNames, tell_activations_from_gradients) {
  for (const uint16_t stream : {kSide, kCompute}) {
    const auto layers = [&](const Groups& groups) {
      for (int layer = 0; layer < 4; ++layer) {
        groups.Multiply();
        groups.Reduce(groups.inner, stream);
        groups.builder->Order(stream, kCompute);
      }
      groups.Multiply();
      groups.Reduce(groups.outer);
      groups.Multiply();
      groups.Reduce(groups.outer);
      groups.builder->Order(kSide, kCompute);
    };
    EXPECT_THAT(NamesOf("a", "b", layers), ElementsAre("tp", "dp")) << stream;
  }
  // Each waited for at once, in the backward pass alone.
  ProgramBuilder builder(Rank(0), 2);
  const uint16_t group = builder.CommSlot("", {Rank(0), Rank(1)});
  for (int layer = 0; layer < 4; ++layer) {
    builder.Kernel(kCompute, "gemm", 100, {.m = 8, .n = 8, .k = 8});
    builder.Order(kCompute, kSide);
    builder.Collective(kSide, group, kSum);
    builder.Order(kSide, kCompute);
  }
  builder.Kernel(kCompute, "gemm", 100, {.m = 8, .n = 8, .k = 8});
  Fragment rank = builder.Finish();
  EXPECT_EQ(NameAxes({{"", 2}}, {.dp = 2}, {&rank}).front().name, "tp");
  rank.comm_slots[0].backward_sum_bytes = 4 * kSum.bytes;
  EXPECT_EQ(NameAxes({{"", 2}}, {.dp = 2}, {&rank}).front().name, "dp");
  // One parameter after the other, each waited for, behind the backward pass.
  const auto gradients = [](const Groups& groups) {
    groups.Multiply();
    for (int parameter = 0; parameter < 4; ++parameter) {
      groups.Reduce(groups.inner);
      groups.builder->Order(kSide, kCompute);
    }
    groups.Multiply();
  };
  EXPECT_THAT(NamesOf("a", "b", gradients), ElementsAre("dp", "dp_2"));
}

}  // namespace
}  // namespace prism::slicer
