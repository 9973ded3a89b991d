// Which streams of a class of ranks may be able to advance. A job may have one stream per peer:
// asking all of them whenever one advances would take time cubic in the ranks. So a stream that
// cannot advance says what it waits for (an op that the host issues, an event that is recorded, a
// hold that is settled) and is asked again when that has happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "replayer/engine/op_position.h"

namespace prism::replayer {

class RunnableStreams {
 public:
  // Streams are numbered from 0; all may advance at first.
  explicit RunnableStreams(size_t streams);

  // From now on every stream is asked each time, in ascending order, and waits are not kept.
  void AskAll() { asks_all_ = true; }

  // What a stream that cannot advance waits for.
  void WaitForHost(uint16_t stream, OpPosition position);
  void WaitForEvent(uint16_t stream, size_t event);

  // What has happened: the host has issued all ops before `frontier`; the event was recorded; the
  // hold of the stream was settled. The last may be called by another thread at any time and takes
  // effect at the next TakeSettled.
  void Issued(OpPosition frontier);
  void Recorded(size_t event);
  void NoteSettled(uint16_t stream);
  void TakeSettled();

  // Calls `advance(stream)`, which says whether the stream moved, for every stream that may be able
  // to advance, including those that become able to meanwhile. Returns whether any moved.
  template <typename Advance>
  bool AdvanceAll(const Advance& advance) {
    bool moved = false;
    for (size_t stream = 0; asks_all_ && stream < is_runnable_.size(); ++stream) {
      moved = advance(static_cast<uint16_t>(stream)) || moved;
    }
    for (size_t i = 0; !asks_all_ && i < runnable_.size(); ++i) {
      const uint16_t stream = runnable_[i];
      is_runnable_[stream] = false;
      ++asked_;
      moved = advance(stream) || moved;
    }
    if (!asks_all_) {
      runnable_.clear();
    }
    return moved;
  }

  // How often streams were asked, for tests of the cost.
  [[nodiscard]] int64_t asked() const { return asked_; }

 private:
  void Add(uint16_t stream);

  bool asks_all_ = false;
  std::vector<uint16_t> runnable_;                               // each once
  std::vector<bool> is_runnable_;                                // by stream
  std::vector<std::pair<OpPosition, uint16_t>> waits_for_host_;  // heap: the lowest op first
  std::map<size_t, std::vector<uint16_t>> waits_for_event_;
  int64_t asked_ = 0;
  std::mutex settled_mutex_;
  std::vector<uint16_t> settled_;
};

}  // namespace prism::replayer
