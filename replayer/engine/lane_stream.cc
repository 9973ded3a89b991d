#include "replayer/engine/lane_stream.h"

#include <algorithm>

#include "replayer/engine/lane_rows.h"

namespace prism::replayer {

void LaneStream::Collect() {
  collects_ = true;
  busy_since_ = tail_;
}

void LaneStream::Flush() {
  if (computes_) {
    LaneRanges& told = activity_->Add(ActivityKind::kCompute);
    std::copy(busy_since_.begin(), busy_since_.end(), told.begin());
    std::copy(tail_.begin(), tail_.end(), told.end());
    busy_since_ = tail_;
    computes_ = false;
  }
}

// Where a gap ends compute in one lane, it is reported for all lanes: cutting a range in two does
// not change its length.
void LaneStream::Pass(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration) {
  const size_t count = lanes.end - lanes.begin;
  TimeNs* const tail = tail_.data() + lanes.begin;
  const TimeNs* const base = issue.base + lanes.begin;
  if (!collects_) {
    PassRow(tail, base, issue.host_ns, duration, count);
    return;
  }
  const BusyRows busy = {tail, busy_since_.data() + lanes.begin};
  if (computes_ && AnyBroken(busy, base, issue.host_ns, count)) {
    Flush();
  }
  PassBusyRow(busy, base, issue.host_ns, duration, count);
}

void LaneStream::Compute(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration) {
  Pass(lanes, issue, duration);
  computes_ = collects_;
}

bool LaneStream::WouldTellGap(const LaneGroup& lanes, const IssueTimes& issue) const {
  return collects_ && AnyBefore(tail_.data() + lanes.begin, issue.base + lanes.begin, issue.host_ns,
                                lanes.end - lanes.begin);
}

void LaneStream::Copy(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration) {
  Flush();
  Pass(lanes, issue, duration);
  if (collects_) {
    std::copy(tail_.begin() + lanes.begin, tail_.begin() + lanes.end,
              busy_since_.begin() + lanes.begin);
  }
}

void LaneStream::WaitUntil(const IssueTimes& issue) {
  Pass({0, static_cast<uint32_t>(tail_.size()), 0}, issue, 0);
}

void LaneStream::MoveTo(TimeNs time) {
  Flush();
  tail_[0] = time;
  if (collects_) {
    busy_since_[0] = time;
  }
}

void LaneStream::Prolong(const LaneGroup& lanes, DurationNs duration) {
  AddRow(duration, tail_.data() + lanes.begin, lanes.end - lanes.begin);
  computes_ = collects_;
}

}  // namespace prism::replayer
