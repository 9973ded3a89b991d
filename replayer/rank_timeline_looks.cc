// The part of RankTimeline that knows which of its streams may be able to go on. A job may have a
// stream a peer: to ask all of them whenever one goes on would take the cube of the ranks.
#include <algorithm>
#include <functional>

#include "replayer/rank_timeline.h"

namespace prism::replayer {

void RankTimeline::LookAt(uint16_t stream) {
  if (!is_to_look_at_[stream]) {
    is_to_look_at_[stream] = true;
    to_look_at_.push_back(stream);
  }
}

void RankTimeline::NoteSettled(HoldId hold) {
  const std::lock_guard<std::mutex> lock(settled_mutex_);
  settled_.push_back(static_cast<uint16_t>(hold - config_.first_hold));
}

void RankTimeline::LookAtSettled() {
  const std::lock_guard<std::mutex> lock(settled_mutex_);
  for (const uint16_t stream : settled_) {
    LookAt(stream);
  }
  settled_.clear();
}

// Heaps of the standard library keep the largest in front.
void RankTimeline::LookAtIssued() {
  while (!waits_for_host_.empty() && waits_for_host_.front().first < frontier_) {
    LookAt(waits_for_host_.front().second);
    std::pop_heap(waits_for_host_.begin(), waits_for_host_.end(), std::greater<>());
    waits_for_host_.pop_back();
  }
}

void RankTimeline::LookAtWaiting(size_t event) {
  const auto found = waits_for_event_.find(event);
  if (found != waits_for_event_.end()) {
    for (const uint16_t stream : found->second) {
      LookAt(stream);
    }
    waits_for_event_.erase(found);
  }
}

// An arrival that is measured moves all streams, which go on in their order then.
bool RankTimeline::AdvanceStreams() {
  bool moved = false;
  for (uint16_t stream = 0; measured_ && stream < cursors_.size(); ++stream) {
    moved = AdvanceStream(stream) || moved;
  }
  for (size_t i = 0; !measured_ && i < to_look_at_.size(); ++i) {
    const uint16_t stream = to_look_at_[i];
    is_to_look_at_[stream] = false;
    ++looks_;
    moved = AdvanceStream(stream) || moved;
  }
  if (!measured_) {
    to_look_at_.clear();
  }
  return moved;
}

// Where arrivals are measured all streams are looked at anyway.
void RankTimeline::WaitForHost(uint16_t stream, OpPosition position) {
  if (!measured_) {
    waits_for_host_.emplace_back(position, stream);
    std::push_heap(waits_for_host_.begin(), waits_for_host_.end(), std::greater<>());
  }
}

void RankTimeline::WaitForEvent(uint16_t stream, size_t event) {
  if (!measured_) {
    waits_for_event_[event].push_back(stream);
  }
}

}  // namespace prism::replayer
