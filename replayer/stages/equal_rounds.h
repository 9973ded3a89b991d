// Rounds of the steady part in which every stage does the same as in the round before, for the same
// time. Compared are the instructions as they are laid out and what they cost on this cluster, not
// what they were made from: whatever makes two rounds differ (the first micro-batch, a reduction in
// the last one, a wait that pays for more) shows there.
//
// Rounds are equal if the times of a round are the same function of those before it. So waits and
// messages must refer to the same places one round later, and no further back than the round
// before; the end of a message is in that round, the same or the next one.
#pragma once

#include <cstddef>

#include "replayer/stages/stage_costs.h"
#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

struct EqualRounds {
  size_t first = 0;
  size_t end = 0;  // behind the last one

  [[nodiscard]] size_t count() const { return end - first; }
};

// The longest run of equal rounds. The last round of a stage is none: it ends with the iteration.
EqualRounds FindEqualRounds(const StagePlan& plan, const StageCosts& costs);

}  // namespace prism::replayer
