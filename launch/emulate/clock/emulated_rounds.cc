#include "launch/emulate/clock/emulated_rounds.h"

#include <utility>

#include <fmt/format.h>

namespace prism::launch {

void EmulatedRounds::Keep(const slicer::PlacedOp& placed) {
  if (!LeavesOut(placed.place.iteration)) {
    return;
  }
  if (std::exchange(number_, placed.place.iteration) != number_) {
    iteration_ = slicer::Iteration();
    rounds_ = slicer::Rounds();
    has_left_out_ = false;
  }
  if (!has_left_out_) {
    iteration_.ops.push_back(placed.op);
  }
}

Result<EmulatedRounds::LeftOut> EmulatedRounds::End(int32_t left,
                                                    DurationNs host_ns,
                                                    slicer::OpStream& stream) {
  if (!LeavesOut(stream.iteration()) || has_left_out_) {
    return LeftOut();
  }
  // Memory is not compared: it was while the program was recorded.
  const bool alike = rounds_.End(iteration_, stream.tables().strings, 0);
  const DurationNs round_ns = host_ns - std::exchange(begin_ns_, host_ns);
  if (!alike || left < count_) {
    return left > count_ ? Result<LeftOut>(LeftOut())
                         : RunFailed(fmt::format(
                               "micro-batches differ that were alike while the program was "
                               "recorded, with {} left; this is a bug in Prism, please report it",
                               left));
  }
  LeftOut result{count_, {}, count_ * round_ns};
  PRISM_ASSIGN_OR_RETURN(
      result.ops, stream.Repeat(rounds_.before(iteration_), rounds_.last(iteration_), count_));
  has_left_out_ = true;
  return result;
}

}  // namespace prism::launch
