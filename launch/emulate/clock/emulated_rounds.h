// Rounds of the built-in program that need not run in the emulation (slicer/record/rounds.h). In
// the graph's first iteration all run, and each op is compared; in the others, and while the
// program warms up, every rank leaves out the same number, and their ops are compared as if it had
// issued them.
//
// Equally many on every rank: together the ranks then run a smaller batch, so that whatever present
// ranks send each other still pairs. Hence the number is the fewest that a recorded rank left out
// of an iteration: every rank has as many before it when its rounds have become alike.
#pragma once

#include <cstdint>
#include <span>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "slicer/record/op_stream.h"
#include "slicer/record/recorded_iteration.h"
#include "slicer/record/rounds.h"

namespace prism::launch {

class EmulatedRounds {
 public:
  // `count`: how many an iteration leaves out; 0: none.
  explicit EmulatedRounds(int32_t count) : count_(count) {}

  // What came before was another process's.
  void BeginAgain() { *this = EmulatedRounds(count_); }

  // An op of the rank's stream.
  void Keep(const slicer::PlacedOp& placed);

  struct LeftOut {
    int32_t rounds = 0;
    std::span<const slicer::PlacedOp> ops;  // of them; valid until the stream's next call
    DurationNs cost_ns = 0;                 // of the host, in all of them
  };

  // A round ends, `left` like it are said to follow, and the program's own clock is at `host_ns`.
  // Fails where rounds differ that were alike while the program was recorded.
  Result<LeftOut> End(int32_t left, DurationNs host_ns, slicer::OpStream& stream);

 private:
  [[nodiscard]] bool LeavesOut(int32_t iteration) const { return count_ > 0 && iteration != 0; }

  int32_t count_;
  int32_t number_ = INT32_MIN;  // of the iteration
  slicer::Iteration iteration_;
  slicer::Rounds rounds_;
  DurationNs begin_ns_ = 0;  // of the round
  bool has_left_out_ = false;
};

}  // namespace prism::launch
