#include "launch/emulate/run/host_time.h"

#include <cmath>

#include <fmt/format.h>

#include "graph/program/op.h"
#include "replayer/cost/parameters.h"

namespace prism::launch {
namespace {

using graph::OpKind;

// Whose measurement is used for an op: every wait costs what a stream_sync does, as in the shim.
OpKind MeasuredAs(OpKind kind) {
  return kind == OpKind::kEventSync || kind == OpKind::kDeviceSync ? OpKind::kStreamSync : kind;
}

}  // namespace

void UseMeasuredHostTime(const std::vector<graph::Fragment>& fragments,
                         double factor,
                         graph::ClusterSpec* cluster) {
  std::vector<graph::HostTime> sums(graph::kOpKindCount);
  for (const graph::Fragment& fragment : fragments) {
    for (size_t kind = 0; kind < fragment.host_times.size() && kind < sums.size(); ++kind) {
      sums[kind].calls += fragment.host_times[kind].calls;
      sums[kind].total_ns += fragment.host_times[kind].total_ns;
    }
  }
  for (size_t kind = 0; kind < sums.size(); ++kind) {
    const graph::HostTime& sum = sums[static_cast<size_t>(MeasuredAs(static_cast<OpKind>(kind)))];
    const graph::Parameter* known =
        cluster->parameters.Find(replayer::HostCostKey(static_cast<OpKind>(kind)));
    if (sum.calls == 0 || known == nullptr) {
      continue;
    }
    graph::Parameter measured = *known;
    measured.value =
        std::round(factor * static_cast<double>(sum.total_ns) / static_cast<double>(sum.calls));
    measured.mark = graph::Mark::kMeasured;
    measured.source = fmt::format(
        "--host-time measured:{}, mean of {} calls of {} recorded ranks on this machine", factor,
        sum.calls, fragments.size());
    cluster->parameters.Put({measured});
  }
}

}  // namespace prism::launch
