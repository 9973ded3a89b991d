// What one pipeline stage does in an iteration: its passes in order, and the messages between them.
//
// 1F1B and interleaved 1F1B are Megatron-LM's (schedules.py), in which all messages at one point of
// the schedule form one NCCL group on one stream. The others, and 1F1B if the style overlaps its
// messages, send and receive each message separately on a stream of its direction, and a pass waits
// only for its input.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"

namespace prism::slicer {

// Messages transferred at one point of the schedule. Stages form a ring, for interleaved schedules.
struct StageExchange {
  bool to_previous = false;
  bool to_next = false;
  bool from_previous = false;
  bool from_next = false;

  [[nodiscard]] bool empty() const { return !sends() && !from_previous && !from_next; }
  [[nodiscard]] bool sends() const { return to_previous || to_next; }

  // A number below kDistinct.
  static constexpr uint32_t kDistinct = 16;
  [[nodiscard]] uint32_t number() const {
    return (to_previous ? 1U : 0U) + (to_next ? 2U : 0U) + (from_previous ? 4U : 0U) +
           (from_next ? 8U : 0U);
  }

  bool operator==(const StageExchange&) const = default;
};

enum class StepKind : uint8_t {
  kForward,
  kBackward,
  kInputGradient,  // zero-bubble schedules: the two halves of a backward pass
  kWeightGradient,
  kExchange,
  kRelease,  // a received gradient is freed: libtorch records an event on its stream
};

constexpr bool IsPass(StepKind kind) {
  return kind != StepKind::kExchange && kind != StepKind::kRelease;
}

// One forward or backward pass of one chunk of a stage's layers over one micro-batch, or a step
// between passes. Chunk c of stage s holds the model's part c * pp + s.
struct StageStep {
  StepKind kind = StepKind::kForward;
  int32_t chunk = 0;
  int64_t microbatch = 0;
  StageExchange exchange = {};

  bool operator==(const StageStep&) const = default;
};

// Whether messages of this style are one NCCL group at each point of the schedule.
bool BatchesMessages(const graph::TrainingStyle& style);

// Fails on a layout that the schedule does not support.
Status CheckSchedule(const graph::JobSpec& job, const graph::TrainingStyle& style);

// The passes of one stage in order, without messages.
std::vector<StageStep> StagePasses(const graph::ParallelSizes& parallel,
                                   graph::Schedule schedule,
                                   int32_t stage,
                                   int64_t microbatches);

// Steps of one stage, in order. CheckSchedule holds.
std::vector<StageStep> StageSteps(const graph::JobSpec& job,
                                  const graph::TrainingStyle& style,
                                  int32_t stage);

// Steps of a stage with which the rounds of the steady part begin: every forward pass after those
// that fill the pipeline; if interleaved, every (pp * vpp)-th of them. The first is the pass behind
// which backward passes begin. All stages run the backward passes of a micro-batch in the same
// round.
std::vector<uint32_t> SteadyRounds(const graph::ParallelSizes& parallel,
                                   const std::vector<StageStep>& steps);

}  // namespace prism::slicer
