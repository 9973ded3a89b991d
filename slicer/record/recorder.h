// The op stream of one sandbox process → its Fragment.
//
// Feeds on the records of shim/channel/messages.h in the order they were issued. Cuts the stream at
// the iteration markers, drops warm-up iterations, requires two successive recorded iterations to
// be identical, resolves event waits to the op that recorded the event, numbers communicators and
// peers by first use, and follows the allocator to the peak.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "shim/channel/messages.h"
#include "slicer/record/memory_tracker.h"

namespace prism::slicer {

struct RecorderOptions {
  Rank rank;
  int32_t warmup_iterations = 1;    // run, not recorded
  int32_t recorded_iterations = 2;  // must be identical
};

class Recorder {
 public:
  explicit Recorder(const RecorderOptions& options);
  ~Recorder();
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;

  // One record with its payload (empty for most kinds). Fails on a stream that breaks the protocol.
  Status Consume(const channel::Record& record, std::span<const std::byte> payload);

  // True once all iterations to record are complete and a further one has begun; nothing more needs
  // to be consumed.
  [[nodiscard]] bool complete() const;

  // What the rank's blocks hold now, with the largest of them: for a device that is full.
  [[nodiscard]] HeldMemory Held(size_t largest) const;

  // After the process has left, or once complete. Fails when there were too few iterations, when
  // they differ (naming the first op that does), or when a communicator's members are unknown.
  Result<graph::Fragment> Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace prism::slicer
