// Where the steady part of an iteration may be repeated: a job with few micro-batches then stands
// for one with many. A round through all stages, with the same calls in the rounds on both sides of
// it, is run as often as is asked for: `turns` times, the first one included. What hangs on a turn
// (host time, events, messages, waits of the host) is that of the round, shifted by whole turns.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

// Positions in a list, the end not included.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;

  [[nodiscard]] bool empty() const { return begin == end; }
  [[nodiscard]] uint32_t length() const { return end - begin; }
  [[nodiscard]] bool Contains(uint32_t position) const {
    return position >= begin && position < end;
  }
};

// The round of one stage.
struct StageLoop {
  Range instructions;
  uint32_t next_end = 0;            // instruction behind the next round
  std::vector<Range> lanes;         // positions in each lane
  Range syncs;                      // likewise, in the host's waits: as many epochs a turn
  Range events;                     // recorded in the round; the round before records as many
  uint32_t marks_before = 0;        // first compute mark of the round before,
  Range marks;                      // of the round
  std::vector<uint32_t> handed_on;  // events of the round that the next turn waits for
};

struct SteadyLoop {
  std::vector<StageLoop> stages;
  std::vector<uint32_t> messages;  // by channel: of one turn
  int64_t turns = 1;
};

// The last round that may be repeated. Nothing where there is none, or where rounds hold a
// collective over stages. `plan` is that of `job`.
std::optional<SteadyLoop> FindSteadyLoop(const graph::JobProgram& job,
                                         const StagePlan& plan,
                                         int64_t turns);

}  // namespace prism::replayer
