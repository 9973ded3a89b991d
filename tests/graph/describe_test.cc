#include "graph/describe.h"

#include <vector>

#include <gtest/gtest.h>

namespace prism::graph {
namespace {

TEST(Describe, long_template_arguments_are_left_out_of_messages) {
  EXPECT_EQ(
      WithoutTemplates("kernel void reduce<float, sum_functor<float, float>, std::array<int, 4> "
                       ">(long) grid 8,1,1"),
      "kernel void reduce<...>(long) grid 8,1,1");
  EXPECT_EQ(WithoutTemplates("kernel apply<4, {lambda()#1}::operator()() const::{lambda(float)#2}>"
                             "(long, State, {lambda(int)#1}, std::array<char*, 2>) grid 1,1,1"),
            "kernel apply<...>(...) grid 1,1,1");
  EXPECT_EQ(WithoutTemplates("kernel fill<int> grid 1,1,1"), "kernel fill<int> grid 1,1,1");
  EXPECT_EQ(
      WithoutTemplates(
          "kernel apply (aten::_foreach_mul_ [2,3] float32, [4] float32, [5] float32, [6] "
          "float32, [7] float32) on stream 0"),
      "kernel apply (aten::_foreach_mul_ [2,3] float32, [4] float32, [5] float32, ... 2 more) "
      "on stream 0");
  EXPECT_EQ(WithoutTemplates("kernel mm (aten::mm [2,3] float32, [3,4] float32) on stream 0"),
            "kernel mm (aten::mm [2,3] float32, [3,4] float32) on stream 0");
  EXPECT_EQ(WithoutTemplates("send 0->1, recv 0<-1 of 8 bytes"), "send 0->1, recv 0<-1 of 8 bytes");
}

TEST(Describe, members_are_shortened_to_what_a_line_holds) {
  EXPECT_EQ(MembersText({}), "none");
  EXPECT_EQ(MembersText(std::vector<uint32_t>{3, 4, 5, 6}), "3-6");
  EXPECT_EQ(MembersText(std::vector<uint32_t>{0, 8}), "0, 8");
  EXPECT_EQ(MembersText(std::vector<uint32_t>{0, 8, 16, 24, 32}), "0, 8, 16, ... 32");
  EXPECT_EQ(RanksText(std::vector{Rank(2), Rank(0), Rank(0)}), "ranks 0, 2");
  EXPECT_EQ(RanksText(std::vector{Rank(7), Rank(7)}), "rank 7");
}

TEST(Describe, counts_have_no_unit) {
  EXPECT_EQ(UnitText({.key = "net.nics_per_node", .value = 8, .unit = "1", .source = ""}), "");
  EXPECT_EQ(UnitText({.key = "host.poll_ns", .value = 9, .unit = "ns", .source = ""}), " ns");
}

}  // namespace
}  // namespace prism::graph
