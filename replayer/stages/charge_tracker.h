// Which wait pays for which collective (replayer/engine/role_plan.h says why): a wait settles the
// collectives that its event's stream held when the event was recorded and that no wait has
// settled yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/program/job_program.h"
#include "replayer/engine/role_plan.h"
#include "replayer/stages/stream_set.h"

namespace prism::replayer {

class ChargeTracker {
 public:
  struct Collective {
    uint32_t transfer = 0;
    uint32_t mark = 0;  // set by the caller: where it was issued
  };

  // `kernel_streams`: streams that may ever hold kernels. A collective without any other such
  // stream adds no charge to any wait and is not tracked.
  explicit ChargeTracker(const std::vector<uint16_t>& kernel_streams) {
    if (kernel_streams.empty()) {
      followed_ = 0;
    } else if (kernel_streams.size() == 1) {
      followed_ = ~Bit(kernel_streams.front());
    }
  }

  [[nodiscard]] bool Follows(uint16_t stream) const { return (followed_ & Bit(stream)) != 0; }

  void Issue(uint16_t stream, const Collective& collective) {
    if (Follows(stream)) {
      streams_[stream].all.push_back(collective);
      owing_ |= Bit(stream);
    }
  }

  // What an event recorded now on that stream covers; for Settle.
  [[nodiscard]] size_t Position(uint16_t stream) const { return streams_[stream].all.size(); }

  // Streams with collectives that no wait has settled.
  [[nodiscard]] StreamSet owing() const { return owing_; }

  // Calls pay(collective) for each collective on `stream` before `position` that is not settled.
  template <typename Pay>
  void Settle(uint16_t stream, size_t position, Pay pay) {
    Queue& queue = streams_[stream];
    for (; queue.settled < position; ++queue.settled) {
      pay(queue.all[queue.settled]);
    }
    if (queue.settled == queue.all.size()) {
      owing_ &= ~Bit(stream);
    }
  }

 private:
  struct Queue {
    std::vector<Collective> all;
    size_t settled = 0;
  };

  std::array<Queue, graph::kStageStreamCount> streams_;
  StreamSet followed_ = ~StreamSet{0};
  StreamSet owing_ = 0;
};

}  // namespace prism::replayer
