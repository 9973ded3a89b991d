#include "replayer/lane_stream.h"

#include <algorithm>

namespace prism::replayer {

void LaneStream::Collect() {
  collects_ = true;
  busy_since_ = tail_;
}

void LaneStream::Flush() {
  for (size_t lane = 0; lane < tail_.size(); ++lane) {
    Stand(lane, tail_[lane]);
  }
}

void LaneStream::Stand(size_t lane, TimeNs until) {
  if (collects_ && busy_since_[lane] < tail_[lane]) {
    (*activity_)[lane].Add(ActivityKind::kCompute, {busy_since_[lane], tail_[lane]});
  }
  tail_[lane] = until;
  busy_since_[lane] = until;
}

void LaneStream::Compute(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration) {
  if (!collects_) {
    for (size_t lane = lanes.begin; lane < lanes.end; ++lane) {
      tail_[lane] = std::max(tail_[lane], issue.of(lane)) + duration;
    }
    return;
  }
  for (size_t lane = lanes.begin; lane < lanes.end; ++lane) {
    const TimeNs issued = issue.of(lane);
    if (issued > tail_[lane]) {
      Stand(lane, issued);
    }
    tail_[lane] += duration;
  }
}

void LaneStream::Copy(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration) {
  for (size_t lane = lanes.begin; lane < lanes.end; ++lane) {
    Stand(lane, std::max(tail_[lane], issue.of(lane)));
    tail_[lane] += duration;
    busy_since_[lane] = tail_[lane];
  }
}

void LaneStream::StandUntil(const IssueTimes& issue) {
  for (size_t lane = 0; lane < tail_.size(); ++lane) {
    if (issue.of(lane) > tail_[lane]) {
      Stand(lane, issue.of(lane));
    }
  }
}

void LaneStream::StandUntil(const std::vector<TimeNs>& times) {
  for (size_t lane = 0; lane < tail_.size(); ++lane) {
    if (times[lane] > tail_[lane]) {
      Stand(lane, times[lane]);
    }
  }
}

void LaneStream::Prolong(const LaneGroup& lanes, DurationNs duration) {
  for (size_t lane = lanes.begin; lane < lanes.end; ++lane) {
    tail_[lane] += duration;
  }
}

}  // namespace prism::replayer
