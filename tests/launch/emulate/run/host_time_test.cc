#include "launch/emulate/run/host_time.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "launch/inputs/presets.h"
#include "shim/channel/frameworks.h"
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

graph::Fragment WithRanges(const std::vector<std::string>& ranges) {
  graph::Fragment fragment;
  for (const std::string& range : ranges) {
    for (const uint8_t flag : {graph::kMarkerBegin, graph::kMarkerEnd}) {
      graph::OpRow op = {.kind = OpKind::kMarker, .flags = flag};
      op.signature = static_cast<uint32_t>(fragment.strings.size());
      fragment.program.Append(op);
    }
    fragment.strings.push_back(range);
  }
  return fragment;
}

TEST(HostTime, a_programs_preset_is_that_of_its_framework) {
  const graph::Fragment ddp = WithRanges({"", "DistributedDataParallel.forward"});
  EXPECT_EQ(HostPresetOf({WithRanges({"", "Optimizer.step#AdamW.step"})}).name, "python");
  EXPECT_EQ(HostPresetOf({ddp}).name, "ddp");
  graph::Fragment trainer = ddp;
  trainer.framework_modules = {"transformers.trainer"};
  EXPECT_EQ(HostPresetOf({ddp, trainer}).name, "transformers") << "over its wrapper";
  trainer.framework_modules.insert(trainer.framework_modules.begin(), "deepspeed.runtime.engine");
  const HostPreset preset = HostPresetOf({trainer});
  EXPECT_EQ(preset.name, "python") << "over the library of its model";
  EXPECT_EQ(preset.reason, "it has loaded deepspeed.runtime.engine");
}

TEST(HostTime, each_framework_has_a_preset) {
  for (const channel::Framework& framework : channel::kFrameworks) {
    EXPECT_TRUE(LoadHostCosts(framework.name).ok()) << framework.name;
  }
  EXPECT_TRUE(LoadHostCosts("ddp").ok());
}

}  // namespace
}  // namespace prism::launch
