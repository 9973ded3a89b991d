#include "launch/inputs/host_costs.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

using graph::HostPhase;
using graph::HostTime;
using graph::OpKind;
using ::testing::HasSubstr;

constexpr const char* kHead =
    "source = \"a test\"\nmark = \"measured\"\npython = \"3.11.7\"\ncpu_turn_ns = 2000\n";

std::string Sort(const std::string& op, const std::string& phase, int framework_ops, int ns) {
  return "{ op = \"" + op + "\", phase = \"" + phase +
         "\", framework_ops = " + std::to_string(framework_ops) +
         ", calls = 10, ns = " + std::to_string(ns) + " },\n";
}

std::string File(const std::string& sorts, const std::string& tail = "") {
  return kHead + ("sorts = [\n" + sorts + "]\n") + tail;
}

HostTime Op(HostPhase phase, int32_t framework_ops, bool is_product = false) {
  return {OpKind::kKernel, is_product, phase, framework_ops, 1, 0};
}

TEST(HostCosts, an_op_costs_what_the_nearest_sort_does) {
  const Result<HostCosts> costs = ParseHostCosts(
      File(Sort("kernel", "forward", 1, 5000) + Sort("kernel", "forward", 4, 8000) +
           Sort("kernel", "backward", 2, 6000) + Sort("product", "forward", 2, 9000)),
      "host.toml");
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  EXPECT_EQ(costs->NsOf(Op(HostPhase::kForward, 1)), 5000);
  EXPECT_EQ(costs->NsOf(Op(HostPhase::kForward, 3)), 8000);
  EXPECT_EQ(costs->NsOf(Op(HostPhase::kForward, 15)), 8000);
  EXPECT_EQ(costs->NsOf(Op(HostPhase::kBackward, 7)), 6000);
  EXPECT_EQ(costs->NsOf(Op(HostPhase::kOptimizer, 4)), 8000) << "of another phase";
  EXPECT_EQ(costs->NsOf(Op(HostPhase::kForward, 2, true)), 9000);
  EXPECT_LT(costs->NsOf({OpKind::kCollective, false, HostPhase::kForward, 1, 1, 0}), 0);
}

TEST(HostCosts, a_file_reads_back_as_it_was) {
  const std::string driver = "[driver]\nsource = \"a guess\"\nkernel = 2000\n";
  const Result<HostCosts> read = ParseHostCosts(
      File(Sort("collective", "backward", 0, 9000) + Sort("kernel", "forward", 1, 5000), driver),
      "host.toml");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const Result<HostCosts> again = ParseHostCosts(HostCostsText(*read), "host.toml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->sorts, read->sorts);
  EXPECT_EQ(again->driver_ns.at("kernel"), 2000);
  EXPECT_EQ(again->driver_source, "a guess");
  EXPECT_EQ(again->cpu_turn_ns, 2000);
  EXPECT_EQ(again->python, "3.11.7");
}

TEST(HostCosts, what_a_file_may_not_say) {
  const std::string sort = Sort("kernel", "forward", 1, 5000);
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {kHead, "has no sorts"},
           {File(sort + sort), "is there twice"},
           {File(sort, "[driver]\nsource = \"x\"\nkernels = 1\n"), "kernels"},
           {File(sort, "more = 1\n"), "more"},
           {File(Sort("kernel", "forward", 16, 1)), "framework_ops"},
           {File(Sort("kernel", "forward", 1, 0)), "ns"},
           {File(Sort("kernel", "other", 1, 1)), "phase: must be"},
           {File(Sort("launch", "forward", 1, 1)), "op: must be"}}) {
    const Result<HostCosts> costs = ParseHostCosts(text, "host.toml");
    EXPECT_EQ(costs.status().code(), StatusCode::kBadFile) << text;
    EXPECT_THAT(costs.status().message(), HasSubstr(message));
  }
}

TEST(HostCosts, presets_can_be_read_and_name_their_source) {
  for (const std::string& name : PresetNames(PresetKind::kHost)) {
    const Result<HostCosts> costs = LoadHostCosts(name);
    ASSERT_TRUE(costs.ok()) << costs.status().message();
    EXPECT_GT(costs->driver_ns.size(), 0U) << name;
    EXPECT_FALSE(costs->driver_source.empty());
    for (const HostPhase phase : {HostPhase::kForward, HostPhase::kBackward}) {
      EXPECT_GT(costs->NsOf(Op(phase, 1)), 0) << name;
    }
  }
}

TEST(HostCosts, recorded_ranks_are_added_up) {
  graph::Fragment fragment;
  fragment.host_times = {{OpKind::kKernel, false, HostPhase::kForward, 1, 2, 100},
                         {OpKind::kKernel, false, HostPhase::kBackward, 1, 1, 50}};
  const std::vector<HostTime> expected = {
      {OpKind::kKernel, false, HostPhase::kForward, 1, 4, 200},
      {OpKind::kKernel, false, HostPhase::kBackward, 1, 2, 100}};
  EXPECT_EQ(SumOfSorts({fragment, fragment}), expected);
}

}  // namespace
}  // namespace prism::launch
