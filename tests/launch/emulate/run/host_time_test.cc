#include "launch/emulate/run/host_time.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

using graph::HostPhase;
using graph::OpKind;

TEST(HostTime, a_kind_costs_the_mean_of_its_ops_and_the_driver_on_the_targets_cpu) {
  HostCosts costs;
  costs.source = "a test";
  costs.sorts = {{OpKind::kKernel, false, HostPhase::kForward, 1, 1, 4'000},
                 {OpKind::kKernel, true, HostPhase::kForward, 1, 1, 10'000}};
  costs.driver_ns = {{"kernel", 1'000}, {"product", 5'000}};
  graph::Fragment fragment;
  fragment.host_times = {{OpKind::kKernel, false, HostPhase::kForward, 1, 3, 0},
                         {OpKind::kKernel, true, HostPhase::kForward, 1, 1, 0},
                         {OpKind::kCollective, false, HostPhase::kForward, 1, 1, 0}};
  graph::ClusterSpec cluster = testing::TinyGraph({{testing::Kernel(0, 100)}}).cluster;
  const double collective_ns = cluster.parameters.Value("host.collective_ns");
  UseHostCosts(costs, {fragment, fragment}, 2, &cluster);
  EXPECT_EQ(cluster.parameters.Value("host.kernel_ns"), 2 * (3 * 5'000 + 15'000) / 4);
  EXPECT_EQ(cluster.parameters.Find("host.kernel_ns")->mark, graph::Mark::kMeasured);
  EXPECT_EQ(cluster.parameters.Value("host.collective_ns"), collective_ns) << "not measured";
}

}  // namespace
}  // namespace prism::launch
