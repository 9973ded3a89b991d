// What one pipeline stage does in an iteration: its passes in order, and the messages between them.
//
// 1F1B and interleaved 1F1B are Megatron-LM's (schedules.py), in which all messages at one point of
// the schedule form one NCCL group on one stream. The others, and 1F1B if the style overlaps its
// messages, send and receive each message separately on a stream of its direction, and a pass waits
// only for its input.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
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

// Micro-batches by which a round of the steady part advances a stage.
int64_t MicrobatchesOfRound(const graph::ParallelSizes& parallel);

// The phrases of all stages (graph/program/phrased_job.h): a pass with the messages around it. Of
// micro-batches only the first and the last are distinguished (0, the last, and 1 for all others),
// so that there are few distinct phrases.
struct JobSchedule {
  struct OfStage {
    std::vector<uint32_t> phrases;  // indices into `distinct`, in order
    // Phrases that begin the rounds of the steady part: every forward pass after those that fill
    // the pipeline; if interleaved, every (pp * vpp)-th of them. The first is the pass with which
    // backward passes begin. All stages run the backward passes of a micro-batch in the same round.
    std::vector<uint32_t> rounds;
  };

  std::vector<std::vector<StageStep>> distinct;
  std::vector<OfStage> stages;
};

JobSchedule ScheduleOf(const graph::JobSpec& job, const graph::TrainingStyle& style);

// Schedules of many jobs, each made once.
class ScheduleCache {
 public:
  const JobSchedule& Find(const graph::JobSpec& job, const graph::TrainingStyle& style);

 private:
  // Stages, chunks, micro-batches, kind of schedule, how messages are sent.
  using Key = std::tuple<int32_t, int32_t, int64_t, graph::Schedule, bool>;

  std::map<Key, JobSchedule> schedules_;
};

}  // namespace prism::slicer
