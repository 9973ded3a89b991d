#include "slicer/synthesize/pass_schedule.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/content_hash.h"

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

// Steps at which the rounds of the steady part begin.
std::vector<uint32_t> SteadyRounds(const graph::ParallelSizes& parallel,
                                   const std::vector<StageStep>& steps) {
  const int64_t period = MicrobatchesOfRound(parallel) * parallel.vpp;
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
  for (size_t k = filling - 1; k < forwards.size(); k += static_cast<size_t>(period)) {
    rounds.push_back(forwards[k]);
  }
  return rounds;
}

// Cuts the steps of stages into phrases: a pass with what it receives before it, if those are the
// only messages there, and everything up to the next.
class PhraseCutter {
 public:
  PhraseCutter(const graph::ParallelSizes& parallel, int64_t microbatches)
      : parallel_(parallel), last_(microbatches - 1) {}

  void Add(std::vector<StageStep> steps) {
    steps_ = std::move(steps);
    stage_ = {};
    stage_.phrases.reserve(steps_.size());
    contents_.resize(steps_.size());
    const std::vector<uint32_t> rounds = SteadyRounds(parallel_, steps_);
    auto round = rounds.begin();
    size_t begin = 0;  // of the phrase
    bool has_pass = false;
    uint32_t i = 0;
    for (StageStep& step : steps_) {
      const bool pass = IsPass(step.kind);
      if (i > begin && ((pass && has_pass) || IsReceive(step))) {
        AddPhrase(begin, i);
        begin = i;
        has_pass = false;
      }
      has_pass = has_pass || pass;
      if (round != rounds.end() && *round == i) {
        stage_.rounds.push_back(static_cast<uint32_t>(stage_.phrases.size()));
        ++round;
      }
      Generalise(&step);
      contents_[i++] = ContentOf(step);
    }
    if (begin < i) {
      AddPhrase(begin, i);
    }
    schedule_.stages.push_back(std::move(stage_));
  }

  JobSchedule Take() { return std::move(schedule_); }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFFU;

  static bool IsReceive(const StageStep& step) {
    return step.kind == StepKind::kExchange && !step.exchange.sends();
  }

  void Generalise(StageStep* step) const {
    if (!IsPass(step->kind)) {
      step->chunk = 0;  // messages are the same for any pass
      step->microbatch = 0;
    } else if (step->microbatch != last_) {
      step->microbatch = std::min<int64_t>(step->microbatch, 1);
    }
  }

  // A generalised step as a number.
  [[nodiscard]] int64_t ContentOf(const StageStep& step) const {
    const int64_t place = step.microbatch == last_ ? 2 : step.microbatch;
    return ((int64_t{step.chunk} * 8 + static_cast<int64_t>(step.kind)) * 4 + place) *
               StageExchange::kDistinct +
           step.exchange.number();
  }

  // Usually these steps are what followed the phrase before.
  void AddPhrase(size_t begin, size_t end) {
    const std::span<const int64_t> content = std::span(contents_).subspan(begin, end - begin);
    uint32_t& next = after_[latest_];
    if (next == kNone || !std::ranges::equal(distinct_[next], content)) {
      next = NumberOf(begin, content);
    }
    latest_ = next;
    after_.resize(distinct_.size(), kNone);
    stage_.phrases.push_back(latest_);
  }

  uint32_t NumberOf(size_t begin, std::span<const int64_t> content) {
    ContentHash hash;
    for (const int64_t number : content) {
      hash.Add(number);
    }
    const auto [first, last] = known_.equal_range(hash.Digest());
    for (auto known = first; known != last; ++known) {
      if (std::ranges::equal(distinct_[known->second], content)) {
        return known->second;
      }
    }
    const auto number = static_cast<uint32_t>(distinct_.size());
    known_.emplace(hash.Digest(), number);
    distinct_.emplace_back(content.begin(), content.end());
    const auto step = steps_.begin() + static_cast<std::ptrdiff_t>(begin);
    schedule_.distinct.emplace_back(step, step + static_cast<std::ptrdiff_t>(content.size()));
    return number;
  }

  const graph::ParallelSizes& parallel_;
  int64_t last_;  // micro-batch
  JobSchedule schedule_;
  std::vector<std::vector<int64_t>> distinct_;         // as schedule_.distinct, steps as numbers
  std::unordered_multimap<uint64_t, uint32_t> known_;  // by hash of the content
  std::vector<uint32_t> after_ = {kNone};  // by distinct phrase: what followed it before
  uint32_t latest_ = 0;                    // phrase
  JobSchedule::OfStage stage_;
  std::vector<StageStep> steps_;   // of the stage
  std::vector<int64_t> contents_;  // of its steps, as far as they were added
};

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

int64_t MicrobatchesOfRound(const graph::ParallelSizes& parallel) {
  return parallel.vpp == 1 ? 1 : parallel.pp;
}

JobSchedule ScheduleOf(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  PhraseCutter cutter(job.parallel, job.microbatches());
  for (int32_t stage = 0; stage < job.parallel.pp; ++stage) {
    cutter.Add(StageSteps(job, style, stage));
  }
  return cutter.Take();
}

const JobSchedule& ScheduleCache::Find(const graph::JobSpec& job,
                                       const graph::TrainingStyle& style) {
  const Key key = {job.parallel.pp, job.parallel.vpp, job.microbatches(), style.schedule,
                   BatchesMessages(style)};
  auto found = schedules_.find(key);
  if (found == schedules_.end()) {
    found = schedules_.emplace(key, ScheduleOf(job, style)).first;
  }
  return found->second;
}

}  // namespace prism::slicer
