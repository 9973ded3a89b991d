#include "replayer/engine/runnable_streams.h"

#include <algorithm>
#include <functional>

namespace prism::replayer {

RunnableStreams::RunnableStreams(size_t streams) : is_runnable_(streams) {
  for (size_t stream = 0; stream < streams; ++stream) {
    Add(static_cast<uint16_t>(stream));
  }
}

void RunnableStreams::Add(uint16_t stream) {
  if (!is_runnable_[stream]) {
    is_runnable_[stream] = true;
    runnable_.push_back(stream);
  }
}

// Heaps of the standard library have the largest in front.
void RunnableStreams::WaitForHost(uint16_t stream, OpPosition position) {
  if (!asks_all_) {
    waits_for_host_.emplace_back(position, stream);
    std::push_heap(waits_for_host_.begin(), waits_for_host_.end(), std::greater<>());
  }
}

void RunnableStreams::Issued(OpPosition frontier) {
  while (!waits_for_host_.empty() && waits_for_host_.front().first < frontier) {
    Add(waits_for_host_.front().second);
    std::pop_heap(waits_for_host_.begin(), waits_for_host_.end(), std::greater<>());
    waits_for_host_.pop_back();
  }
}

void RunnableStreams::WaitForEvent(uint16_t stream, size_t event) {
  if (!asks_all_) {
    waits_for_event_[event].push_back(stream);
  }
}

void RunnableStreams::Recorded(size_t event) {
  const auto found = waits_for_event_.find(event);
  if (found != waits_for_event_.end()) {
    for (const uint16_t stream : found->second) {
      Add(stream);
    }
    waits_for_event_.erase(found);
  }
}

void RunnableStreams::NoteSettled(uint16_t stream) {
  const std::lock_guard<std::mutex> lock(settled_mutex_);
  settled_.push_back(stream);
}

void RunnableStreams::TakeSettled() {
  const std::lock_guard<std::mutex> lock(settled_mutex_);
  for (const uint16_t stream : settled_) {
    Add(stream);
  }
  settled_.clear();
}

}  // namespace prism::replayer
