// Where all stages of a job repeat themselves at the same time: equal rounds and, inside them, if
// chunks are equal, repeated pairs of a forward and a backward pass. A PhraseRun takes both as
// turns.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/program/phrased_job.h"

namespace prism::replayer {

// The steps of each stage that are run `turns` times, in place of all steps up to `behind`.
struct PhraseLoop {
  struct OfStage {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t behind = 0;
  };
  std::vector<OfStage> stages;
  int64_t turns = 1;
};

// The last rounds that are equal in every stage, and `more` of them. Null if fewer than three are.
std::optional<PhraseLoop> FindPhraseLoop(const graph::PhrasedJob& job, int64_t more);

// A forward and a backward pass, `turns` times, starting at one step of each stage.
struct PhraseStretch {
  static constexpr uint32_t kSteps = 2;  // of a turn
  std::vector<uint32_t> begin;           // by stage
  uint32_t turns = 0;
};

// In order; no step is in two of them.
struct PhraseStretches {
  std::vector<PhraseStretch> before;  // the loop; all stretches if there is no loop
  std::vector<PhraseStretch> inside;  // each turn of it
  std::vector<PhraseStretch> behind;
};

// Those of interleaved schedules that are long enough to become steady, and not among the first
// `first_steps` steps.
PhraseStretches FindPhraseStretches(const graph::PhrasedJob& job,
                                    const PhraseLoop* loop,
                                    uint32_t first_steps);

}  // namespace prism::replayer
