#include "launch/run/host_time.h"

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/op.h"

namespace prism::launch {
namespace {

using graph::OpKind;

// Every wait costs what stream_sync does, as the shim has it.
constexpr std::pair<std::string_view, OpKind> kKeys[] = {
    {"host.kernel_ns", OpKind::kKernel},
    {"host.memcpy_ns", OpKind::kMemcpy},
    {"host.memset_ns", OpKind::kMemset},
    {"host.event_record_ns", OpKind::kEventRecord},
    {"host.event_wait_ns", OpKind::kEventWait},
    {"host.stream_sync_ns", OpKind::kStreamSync},
    {"host.event_sync_ns", OpKind::kStreamSync},
    {"host.device_sync_ns", OpKind::kStreamSync},
    {"host.collective_ns", OpKind::kCollective},
    {"host.peer_group_ns", OpKind::kPeerGroup},
    {"host.segment_alloc_ns", OpKind::kSegmentAlloc},
    {"host.segment_free_ns", OpKind::kSegmentFree},
};

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
  const std::map<std::string_view, OpKind> kinds(std::begin(kKeys), std::end(kKeys));
  std::vector<graph::Parameter> parameters = cluster->parameters.all();
  for (graph::Parameter& parameter : parameters) {
    const auto found = kinds.find(parameter.key);
    if (found == kinds.end() || sums[static_cast<size_t>(found->second)].calls == 0) {
      continue;
    }
    const graph::HostTime& sum = sums[static_cast<size_t>(found->second)];
    parameter.value =
        std::round(factor * static_cast<double>(sum.total_ns) / static_cast<double>(sum.calls));
    parameter.mark = graph::Mark::kMeasured;
    parameter.source = fmt::format(
        "--host-time measured:{}, mean of {} calls of {} recorded ranks on this machine", factor,
        sum.calls, fragments.size());
  }
  cluster->parameters = graph::ParameterTable(std::move(parameters));
}

}  // namespace prism::launch
