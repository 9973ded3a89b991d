#include "slicer/synthesize/pass_schedule.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

using graph::Schedule;

struct Shape {
  int32_t stage = 0;
  int32_t stages = 1;
  int32_t chunks = 1;
  int64_t microbatches = 1;

  [[nodiscard]] bool first() const { return stage == 0; }
  [[nodiscard]] bool last() const { return stage == stages - 1; }
  [[nodiscard]] int64_t total() const { return microbatches * chunks; }

  // The chunk of the k-th forward or backward pass of an interleaved schedule: pp micro-batches go
  // through one chunk before the next chunk's turn; backward visits the chunks in reverse.
  [[nodiscard]] int32_t ForwardChunk(int64_t k) const {
    return static_cast<int32_t>(k % (int64_t{stages} * chunks) / stages);
  }
  [[nodiscard]] int32_t BackwardChunk(int64_t k) const { return chunks - 1 - ForwardChunk(k); }
  [[nodiscard]] int64_t Microbatch(int64_t k) const {
    return chunks == 1 ? k : k / (int64_t{stages} * chunks) * stages + k % stages;
  }
  [[nodiscard]] StageStep Forward(int64_t k) const {
    return {StepKind::kForward, ForwardChunk(k), Microbatch(k)};
  }
  [[nodiscard]] StageStep Backward(int64_t k) const {
    return {StepKind::kBackward, BackwardChunk(k), Microbatch(k)};
  }
};

class BatchedSteps {
 public:
  explicit BatchedSteps(const Shape& shape) : shape_(shape) {}

  std::vector<StageStep> Run() {
    constexpr int64_t kStepsOfPass = 3;  // with its messages and their release
    steps_.reserve(static_cast<size_t>(2 * kStepsOfPass * shape_.total()));
    if (shape_.chunks > 1) {
      Interleaved();
    } else {
      Plain();
    }
    return std::move(steps_);
  }

 private:
  void Exchange(const StageExchange& exchange) {
    if (!exchange.empty()) {
      steps_.push_back({StepKind::kExchange, 0, 0, exchange});
    }
  }

  void Release(bool received) {
    if (received) {
      steps_.push_back({StepKind::kRelease});
    }
  }

  void Plain() {
    const bool first = shape_.first();
    const bool last = shape_.last();
    const int64_t total = shape_.microbatches;
    const int64_t warmup = std::min<int64_t>(shape_.stages - shape_.stage - 1, total);
    for (int64_t k = 0; k < warmup; ++k) {
      Exchange({.from_previous = !first});
      steps_.push_back(shape_.Forward(k));
      Exchange({.to_next = !last});
    }
    if (total > warmup) {
      Exchange({.from_previous = !first});
    }
    for (int64_t k = warmup; k < total; ++k) {
      steps_.push_back(shape_.Forward(k));
      Exchange({.to_next = !last, .from_next = !last});
      steps_.push_back(shape_.Backward(k - warmup));
      Exchange({.to_previous = !first, .from_previous = !first && k + 1 < total});
      Release(!last);
    }
    for (int64_t k = total - warmup; k < total; ++k) {
      Exchange({.from_next = !last});
      steps_.push_back(shape_.Backward(k));
      Exchange({.to_previous = !first});
      Release(!last);
    }
  }

  void Interleaved() {
    const int64_t fill =
        int64_t{shape_.stages - shape_.stage - 1} * 2 + int64_t{shape_.chunks - 1} * shape_.stages;
    const bool all_warmup = shape_.microbatches == shape_.stages;
    const int64_t total = shape_.total();
    const int64_t warmup = all_warmup ? total : std::min(fill, total);
    Exchange({.from_previous = !shape_.first()});
    for (int64_t k = 0; k < warmup; ++k) {
      steps_.push_back(shape_.Forward(k));
      const bool opens_steady = k == warmup - 1 && !all_warmup;
      Exchange({.to_next = HasOutput(k),
                .from_previous = ReceivesInput(k + 1),
                .from_next = opens_steady && !shape_.last()});
    }
    for (int64_t k = 0; k < total - warmup; ++k) {
      Steady(k, warmup);
    }
    if (all_warmup) {
      Exchange({.from_next = !shape_.last()});
    }
    for (int64_t k = total - warmup; k < total; ++k) {
      AddBackward(k);
      const bool more = k + 1 < total;
      Exchange({.to_previous = HasInputGradient(k),
                .from_next =
                    more && !(shape_.last() && shape_.BackwardChunk(k + 1) == shape_.chunks - 1)});
    }
  }

  [[nodiscard]] bool HasOutput(int64_t k) const {
    return !(shape_.last() && shape_.ForwardChunk(k) == shape_.chunks - 1);
  }
  [[nodiscard]] bool HasInputGradient(int64_t k) const {
    return !(shape_.first() && shape_.BackwardChunk(k) == 0);
  }
  [[nodiscard]] bool ReceivesInput(int64_t k) const {
    return k < shape_.total() && !(shape_.first() && shape_.ForwardChunk(k) == 0);
  }

  void AddBackward(int64_t k) {
    steps_.push_back(shape_.Backward(k));
    Release(!(shape_.last() && shape_.BackwardChunk(k) == shape_.chunks - 1));
  }

  // What arrives closes the ring `stages - 1` passes later: stage 0 gets the input for the chunk
  // after the one that the last stage has just run; the same in backward.
  void Steady(int64_t k, int64_t warmup) {
    const int64_t forward = k + warmup;
    const int64_t period = int64_t{shape_.stages} * shape_.chunks;
    steps_.push_back(shape_.Forward(forward));
    AddBackward(k);
    bool receives_input = true;
    if (shape_.first()) {
      receives_input =
          shape_.ForwardChunk(forward + period - (shape_.stages - 1)) != shape_.chunks - 1;
    }
    bool receives_gradient = true;
    if (shape_.last()) {
      receives_gradient = shape_.BackwardChunk(k + period - (shape_.stages - 1)) != 0;
    }
    Exchange({.to_previous = HasInputGradient(k),
              .to_next = HasOutput(forward),
              .from_previous = receives_input && forward + 1 < shape_.total(),
              .from_next = receives_gradient});
  }

  Shape shape_;
  std::vector<StageStep> steps_;
};

// Passes without messages.
std::vector<StageStep> OneForwardOneBackward(const Shape& shape) {
  const int64_t behind = shape.stages - shape.stage - 1;
  const int64_t fill =
      shape.chunks == 1 ? behind : behind * 2 + int64_t{shape.chunks - 1} * shape.stages;
  const int64_t total = shape.total();
  const int64_t warmup = std::min(fill, total);
  std::vector<StageStep> passes;
  passes.reserve(static_cast<size_t>(2 * total));
  for (int64_t k = 0; k < warmup; ++k) {
    passes.push_back(shape.Forward(k));
  }
  for (int64_t k = warmup; k < total; ++k) {
    passes.push_back(shape.Forward(k));
    passes.push_back(shape.Backward(k - warmup));
  }
  for (int64_t k = total - warmup; k < total; ++k) {
    passes.push_back(shape.Backward(k));
  }
  return passes;
}

// All micro-batches of a chunk, then the next chunk; with one chunk this is GPipe.
std::vector<StageStep> BreadthFirst(const Shape& shape) {
  std::vector<StageStep> passes;
  for (int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int64_t k = 0; k < shape.microbatches; ++k) {
      passes.push_back({StepKind::kForward, chunk, k});
    }
  }
  for (int32_t chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    for (int64_t k = 0; k < shape.microbatches; ++k) {
      passes.push_back({StepKind::kBackward, chunk, k});
    }
  }
  return passes;
}

// ZB-H1 (Qi et al. 2024, section 2.2): 1F1B with deferred weight gradients. A stage holds as many
// micro-batches as the first one does in 1F1B, so stage s may be s weight passes behind.
std::vector<StageStep> ZeroBubble(const Shape& shape) {
  std::vector<StageStep> passes;
  int64_t weights = 0;
  for (StageStep pass : OneForwardOneBackward(shape)) {
    const bool backward = pass.kind == StepKind::kBackward;
    if (backward) {
      pass.kind = StepKind::kInputGradient;
    }
    passes.push_back(pass);
    if (backward && pass.microbatch >= shape.stage) {
      passes.push_back({StepKind::kWeightGradient, 0, weights++});
    }
  }
  while (weights < shape.microbatches) {
    passes.push_back({StepKind::kWeightGradient, 0, weights++});
  }
  return passes;
}

// Each message separately: received before its pass, sent after it.
std::vector<StageStep> WithMessages(const Shape& shape, const std::vector<StageStep>& passes) {
  std::vector<StageStep> steps;
  steps.reserve(3 * passes.size());
  for (const StageStep& pass : passes) {
    const bool forward = pass.kind == StepKind::kForward;
    const bool begins = shape.first() && pass.chunk == 0;
    const bool ends = shape.last() && pass.chunk == shape.chunks - 1;
    const bool moves = pass.kind != StepKind::kWeightGradient;
    const StageExchange in = {.from_previous = forward && !begins, .from_next = !forward && !ends};
    const StageExchange out = {.to_previous = !forward && !begins, .to_next = forward && !ends};
    if (moves && !in.empty()) {
      steps.push_back({StepKind::kExchange, pass.chunk, pass.microbatch, in});
    }
    steps.push_back(pass);
    if (moves && !out.empty()) {
      steps.push_back({StepKind::kExchange, pass.chunk, pass.microbatch, out});
    }
  }
  return steps;
}

}  // namespace

bool BatchesMessages(const graph::TrainingStyle& style) {
  return style.schedule == Schedule::kOneForwardOneBackward && !style.overlap_p2p;
}

Status CheckSchedule(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  const graph::ParallelSizes& sizes = job.parallel;
  if (job.microbatches() < 1) {
    return InvalidArgument("a job needs at least one micro-batch per rank");
  }
  if (sizes.vpp == 1) {
    return OkStatus();
  }
  if (style.schedule == Schedule::kGpipe || style.schedule == Schedule::kZeroBubble) {
    return InvalidArgument("GPipe and ZB-H1 have one chunk per stage; vpp must be 1");
  }
  if (sizes.pp < 2) {
    return InvalidArgument("vpp > 1 needs pp > 1");
  }
  if (style.schedule == Schedule::kOneForwardOneBackward && job.microbatches() % sizes.pp != 0) {
    return InvalidArgument(
        fmt::format("interleaving (vpp {}) needs micro-batches in multiples of the {} stages, "
                    "not {}",
                    sizes.vpp, sizes.pp, job.microbatches()));
  }
  return OkStatus();
}

std::vector<StageStep> StagePasses(const graph::ParallelSizes& parallel,
                                   Schedule schedule,
                                   int32_t stage,
                                   int64_t microbatches) {
  const Shape shape = {stage, parallel.pp, parallel.vpp, microbatches};
  switch (schedule) {
    case Schedule::kOneForwardOneBackward:
      return OneForwardOneBackward(shape);
    case Schedule::kZeroBubble:
      return ZeroBubble(shape);
    case Schedule::kGpipe:
    case Schedule::kLoopedBreadthFirst:
      return BreadthFirst(shape);
  }
  return {};
}

std::vector<StageStep> StageSteps(const graph::JobSpec& job,
                                  const graph::TrainingStyle& style,
                                  int32_t stage) {
  const Shape shape = {stage, job.parallel.pp, job.parallel.vpp, job.microbatches()};
  if (BatchesMessages(style)) {
    return BatchedSteps(shape).Run();
  }
  return WithMessages(shape, StagePasses(job.parallel, style.schedule, stage, shape.microbatches));
}

std::vector<uint32_t> SteadyRounds(const graph::ParallelSizes& parallel,
                                   const std::vector<StageStep>& steps) {
  const size_t period =
      parallel.vpp == 1 ? 1 : static_cast<size_t>(int64_t{parallel.pp} * parallel.vpp);
  std::vector<uint32_t> forwards;
  forwards.reserve(steps.size() / 2);
  size_t filling = 0;  // forward passes before the first backward pass
  uint32_t i = 0;
  for (const StageStep& step : steps) {
    if (step.kind == StepKind::kForward) {
      forwards.push_back(i);
    } else if (filling == 0 && IsPass(step.kind)) {
      filling = forwards.size();
    }
    ++i;
  }
  std::vector<uint32_t> rounds;
  for (size_t k = filling - 1; k < forwards.size(); k += period) {
    rounds.push_back(forwards[k]);
  }
  return rounds;
}

}  // namespace prism::slicer
