#include "slicer/record/host_meter.h"

#include <algorithm>

namespace prism::slicer {

using channel::RecordKind;
using graph::HostPhase;
using graph::OpKind;

namespace {

constexpr size_t kPhases = graph::kHostPhaseNames.size();
constexpr size_t kCounts = graph::kMostFrameworkOps + 1;  // of framework ops
constexpr size_t kSortsOfKind = 2 * kPhases * kCounts;  // products of matrices are the second half

}  // namespace

std::optional<OpKind> ChargedOp(RecordKind kind) {
  switch (kind) {
    case RecordKind::kKernel:
    case RecordKind::kMatmul:
      return OpKind::kKernel;
    case RecordKind::kMemcpy:
      return OpKind::kMemcpy;
    case RecordKind::kMemset:
      return OpKind::kMemset;
    case RecordKind::kEventRecord:
      return OpKind::kEventRecord;
    case RecordKind::kEventWait:
      return OpKind::kEventWait;
    case RecordKind::kSync:
      return OpKind::kStreamSync;
    case RecordKind::kCollective:
      return OpKind::kCollective;
    case RecordKind::kGroupEnd:
      return OpKind::kPeerGroup;
    case RecordKind::kSegmentAlloc:
      return OpKind::kSegmentAlloc;
    case RecordKind::kSegmentFree:
      return OpKind::kSegmentFree;
    default:
      return std::nullopt;
  }
}

void HostMeter::Add(const channel::Record& record) {
  const std::optional<OpKind> kind = ChargedOp(record.kind);
  if (!kind || (record.flags & channel::kLaunchedWithPrevious) != 0) {
    return;
  }
  const HostPhase phase = (record.flags & channel::kInOptimizer) != 0  ? HostPhase::kOptimizer
                          : (record.flags & channel::kInBackward) != 0 ? HostPhase::kBackward
                                                                       : HostPhase::kForward;
  const size_t ops = std::min<size_t>(record.framework_ops, graph::kMostFrameworkOps);
  sums_.resize(graph::kOpKindCount * kSortsOfKind);
  Sum& sum = sums_[static_cast<size_t>(*kind) * kSortsOfKind +
                   (record.kind == RecordKind::kMatmul ? kPhases * kCounts : 0) +
                   static_cast<size_t>(phase) * kCounts + ops];
  ++sum.calls;
  sum.total_ns += record.host_ns;
}

std::vector<graph::HostTime> HostMeter::times() const {
  std::vector<graph::HostTime> times;
  for (size_t sort = 0; sort < sums_.size(); ++sort) {
    if (sums_[sort].calls > 0) {
      times.push_back(
          {static_cast<OpKind>(sort / kSortsOfKind), sort % kSortsOfKind >= kPhases * kCounts,
           static_cast<HostPhase>(sort / kCounts % kPhases), static_cast<int32_t>(sort % kCounts),
           sums_[sort].calls, sums_[sort].total_ns});
    }
  }
  return times;
}

}  // namespace prism::slicer
