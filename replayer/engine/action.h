// What a class of ranks does, in an order in which it can be executed. The order depends only on
// the graph, never on times: once recorded (RankTimeline::Config::actions), it serves every
// evaluation with different durations.
#pragma once

#include <cstdint>

namespace prism::replayer {

enum class ActionKind : uint8_t {
  kWork,      // kernels and copies: steps [first, end) of the stream
  kRecord,    // step `first` of the stream, as all below
  kWait,      // the stream waits for an event
  kArrive,    // it has reached a collective or peer group
  kFinish,    // its transfers are over
  kStart,     // the iteration begins: the first step of the first stream is about to be executed
  kHostWait,  // the host thread waits: HostWait `first` of the plan
};

struct Action {
  ActionKind kind = ActionKind::kWork;
  uint16_t stream = 0;
  int32_t iteration = 0;
  uint32_t segment =
      0;  // of host time in which the op is issued; a new one begins at a kHostWait or pause
  uint32_t first = 0;
  uint32_t end = 0;
};

}  // namespace prism::replayer
