// When an op is issued is not stored but computed: a base plus the host's cost from the start of
// the program, which is a prefix sum of the plan. Issuing a run of ops takes constant time,
// whatever its length, and only a wait, a pause or a shift begins a segment with new bases.
// Segments are in order of position and are never changed afterwards, so a stream that is far
// behind the host finds the times of its ops as they were.
#include "replayer/engine/host_cursor.h"

#include <iterator>
#include <utility>

namespace prism::replayer {

// Pauses also apply after the last iteration: it ends where the next could begin.
HostCursor::HostCursor(const RolePlan& plan, const RankClass& rank_class, int32_t iterations)
    : plan_(plan),
      end_(OpPosition{iterations} * plan.size()),
      killed_at_(rank_class.kill_iteration < 0
                     ? end_
                     : std::min(end_, OpPosition{rank_class.kill_iteration} * plan.size())),
      limit_(killed_at_),
      segments_({{0, rank_class.delay_ns}}) {
  for (const HostPause& pause : rank_class.pauses) {
    for (int64_t i = pause.iterations; i <= iterations; i += pause.iterations) {
      AddGap({i * plan.size(), pause.duration_ns});
    }
  }
}

void HostCursor::Allow(OpPosition position) {
  limit_ = std::max(limit_, std::min(position, killed_at_));
}

void HostCursor::Prolong(OpPosition ops) {
  end_ += ops;
  limit_ = killed_at_ = end_;
}

void HostCursor::AddGap(Gap gap) {
  const auto after = std::ranges::upper_bound(gaps_, gap.position, {}, &Gap::position);
  gaps_.insert(after, gap);
}

bool HostCursor::PassGaps() {
  bool passed = false;
  while (!gaps_.empty() && gaps_.front().position == issued_) {
    std::vector<TimeNs> base = segments_.back().base;
    for (TimeNs& time : base) {
      time += gaps_.front().duration_ns;
    }
    segments_.push_back({issued_, std::move(base)});
    gaps_.erase(gaps_.begin());
    passed = true;
  }
  return passed;
}

OpPosition HostCursor::WaitPosition() const {
  return plan_.host_waits.empty()
             ? end_
             : OpPosition{wait_iteration_} * plan_.size() + plan_.host_waits[next_wait_].op;
}

const HostWait* HostCursor::NextWait() const {
  return issued_ < limit_ && WaitPosition() == issued_ ? &plan_.host_waits[next_wait_] : nullptr;
}

void HostCursor::PassWait(std::vector<TimeNs> base) {
  ++issued_;
  segments_.push_back({issued_, std::move(base)});
  if (++next_wait_ == plan_.host_waits.size()) {
    next_wait_ = 0;
    ++wait_iteration_;
  }
}

void HostCursor::IssueOps(OpTraces* traces) {
  OpPosition target = std::min(WaitPosition(), limit_);
  if (!gaps_.empty()) {
    target = std::min(target, gaps_.front().position);
  }
  traces->IssueOps(issued_, target, segments_.back().base);
  issued_ = target;
}

const HostCursor::Segment& HostCursor::SegmentAt(OpPosition position) const {
  const auto after = std::ranges::upper_bound(segments_, position, {}, &Segment::begin);
  return *std::prev(after);
}

std::optional<TimeNs> HostCursor::Time() const {
  if (issued_ < limit_ || (!gaps_.empty() && gaps_.front().position <= issued_)) {
    return std::nullopt;
  }
  return segments_.back().base[0] + (issued_ > 0 ? plan_.HostNsUntil(issued_ - 1) : 0);
}

void HostCursor::Shift(DurationNs duration_ns) {
  segments_.push_back({issued_, {segments_.back().base[0] + duration_ns}});
}

}  // namespace prism::replayer
