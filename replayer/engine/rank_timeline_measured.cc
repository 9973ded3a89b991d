// The part of RankTimeline that takes arrivals from a real GPU instead of computing them.
#include "replayer/engine/rank_timeline.h"

namespace prism::replayer {

void RankTimeline::MeasureArrivals() {
  PRISM_CHECK(config_.gated);
  measured_ = true;
  runnable_.AskAll();  // a measured arrival shifts all streams, which advance in order
}

void RankTimeline::Arrive(OpPosition position, TimeNs time) {
  PRISM_CHECK(measured_);
  arrivals_[position] = time;
}

TimeNs RankTimeline::ComputedArrivalOf(const StreamCursor& cursor, const Step& step) const {
  return std::max(cursor.lanes.tail()[0], IssueOf(cursor, step).of(0));
}

std::optional<TimeNs> RankTimeline::ComputedArrival(OpPosition position) const {
  for (const StreamCursor& cursor : cursors_) {
    const std::vector<Step>& steps = plan_.streams[static_cast<size_t>(&cursor - cursors_.data())];
    if (cursor.holding || cursor.next == steps.size()) {
      continue;
    }
    const Step& step = steps[cursor.next];
    if (PositionOf(cursor, step) == position && position < host_.issued()) {
      return ComputedArrivalOf(cursor, step);
    }
  }
  return std::nullopt;
}

// False while the arrival is not known. The rank's host and all its streams are shifted by how much
// slower or faster than its graph the rank was since it was last measured; held streams keep their
// arrival. Events that streams ahead have recorded after the op are shifted too: a later op waits
// for them, and its own measured delay would otherwise count twice.
bool RankTimeline::TakeArrival(StreamCursor* cursor, const Step& step) {
  const auto arrival = arrivals_.find(PositionOf(*cursor, step));
  if (arrival == arrivals_.end()) {
    return false;
  }
  const TimeNs time = arrival->second;
  const DurationNs shift = time - ComputedArrivalOf(*cursor, step);
  for (StreamCursor& other : cursors_) {
    if (&other != cursor && !other.holding) {
      other.lanes.MoveTo(other.lanes.tail()[0] + shift);
    }
  }
  const OpPosition position = PositionOf(*cursor, step);
  std::erase_if(recorded_, [&](const auto& recorded) {
    return recorded.position < position - static_cast<OpPosition>(plan_.size());
  });
  for (const RecordedEvent& recorded : recorded_) {
    if (recorded.position > position && !cursors_[recorded.stream].holding) {
      events_[recorded.event].times[0] += shift;
    }
  }
  cursor->lanes.MoveTo(time);
  host_.Shift(shift);
  arrivals_.erase(arrival);
  return true;
}

}  // namespace prism::replayer
