#include "slicer/record/host_meter.h"

#include <algorithm>
#include <map>
#include <utility>

namespace prism::slicer {

using channel::RecordKind;
using graph::HostPhase;
using graph::OpKind;

namespace {

constexpr size_t kMostIterations = 64;
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

void HostMeter::Add(const channel::Record& record, int32_t iteration) {
  const std::optional<OpKind> kind = ChargedOp(record.kind);
  if (!kind || (record.flags & channel::kLaunchedWithPrevious) != 0) {
    return;
  }
  if (iteration != iteration_) {
    if (!sums_.empty() && ended_.size() < kMostIterations) {
      ended_.push_back(Current());
    }
    iteration_ = iteration;
    sums_.assign(graph::kOpKindCount * kSortsOfKind, Sum());
  }
  const HostPhase phase = (record.flags & channel::kInOptimizer) != 0  ? HostPhase::kOptimizer
                          : (record.flags & channel::kInBackward) != 0 ? HostPhase::kBackward
                                                                       : HostPhase::kForward;
  const size_t ops = std::min<size_t>(record.framework_ops, graph::kMostFrameworkOps);
  Sum& sum = sums_[static_cast<size_t>(*kind) * kSortsOfKind +
                   (record.kind == RecordKind::kMatmul ? kPhases * kCounts : 0) +
                   static_cast<size_t>(phase) * kCounts + ops];
  ++sum.calls;
  sum.total_ns += record.host_ns;
}

HostMeter::Ended HostMeter::Current() const {
  Ended ended = {iteration_, {}};
  for (size_t sort = 0; sort < sums_.size(); ++sort) {
    if (sums_[sort].calls > 0) {
      ended.sums.push_back({static_cast<uint32_t>(sort), sums_[sort].calls, sums_[sort].total_ns});
    }
  }
  return ended;
}

std::vector<graph::HostTime> HostMeter::times(int32_t from) const {
  const bool has_any =
      std::ranges::any_of(ended_, [from](const Ended& ended) { return ended.iteration >= from; });
  std::vector<Ended> all = ended_;
  if (has_any) {
    std::erase_if(all, [from](const Ended& ended) { return ended.iteration < from; });
  } else {
    all.push_back(Current());
  }
  struct Means {
    int64_t calls = 0;
    std::vector<DurationNs> ns;  // of an iteration each
  };
  std::map<size_t, Means> by_sort;
  for (const Ended& ended : all) {
    for (const Sum& sum : ended.sums) {
      Means& means = by_sort[sum.sort];
      means.calls += sum.calls;
      means.ns.push_back(sum.total_ns / sum.calls);
    }
  }
  std::vector<graph::HostTime> times;
  for (auto& [sort, means] : by_sort) {
    const auto quarter = means.ns.begin() + static_cast<int64_t>(means.ns.size() / 4);
    std::ranges::nth_element(means.ns, quarter);
    times.push_back({static_cast<OpKind>(sort / kSortsOfKind),
                     sort % kSortsOfKind >= kPhases * kCounts,
                     static_cast<HostPhase>(sort / kCounts % kPhases),
                     static_cast<int32_t>(sort % kCounts), means.calls, means.calls * *quarter});
  }
  return times;
}

}  // namespace prism::slicer
