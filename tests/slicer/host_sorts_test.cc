// slicer/record/host_meter.h: records of a rank become the time of its host by sort of op.
#include <vector>

#include <gtest/gtest.h>

#include "slicer/record/host_meter.h"

namespace prism::slicer {
namespace {

using graph::HostPhase;
using graph::OpKind;

TEST(HostMeter, host_time_is_added_up_by_sort_of_op) {
  HostMeter meter;
  channel::Record record = {};
  record.kind = channel::RecordKind::kKernel;
  record.framework_ops = 2;
  record.host_ns = 1'000;
  meter.Add(record, 0);
  meter.Add(record, 0);
  record.flags = channel::kInBackward;
  record.framework_ops = 200;
  meter.Add(record, 0);
  record.flags = channel::kInOptimizer | channel::kInBackward;
  record.kind = channel::RecordKind::kMatmul;
  meter.Add(record, 0);
  record.flags = channel::kLaunchedWithPrevious;
  meter.Add(record, 0);  // costs the host nothing
  const std::vector<graph::HostTime> expected = {
      {OpKind::kKernel, false, HostPhase::kForward, 2, 2, 2'000},
      {OpKind::kKernel, false, HostPhase::kBackward, graph::kMostFrameworkOps, 1, 1'000},
      {OpKind::kKernel, true, HostPhase::kOptimizer, graph::kMostFrameworkOps, 1, 1'000}};
  EXPECT_EQ(meter.times(0), expected);
}

TEST(HostMeter, host_time_is_that_of_undisturbed_iterations_and_of_no_early_one) {
  HostMeter meter;
  channel::Record record = {};
  record.kind = channel::RecordKind::kKernel;
  const std::vector<uint32_t> by_iteration = {900'000, 1'100, 80'000, 1'000, 1'050, 1};
  for (size_t i = 0; i < by_iteration.size(); ++i) {
    record.host_ns = by_iteration[i];
    meter.Add(record, static_cast<int32_t>(i));
    meter.Add(record, static_cast<int32_t>(i));
  }
  // The last is not complete.
  const std::vector<graph::HostTime> expected = {
      {OpKind::kKernel, false, HostPhase::kForward, 0, 8, 8 * 1'050}};
  EXPECT_EQ(meter.times(1), expected);
}

}  // namespace
}  // namespace prism::slicer
