#include "slicer/synthesize/stage_synthesis.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/stage_messages.h"

namespace prism::slicer {
namespace {

bool IsBackward(StepKind kind) {
  return kind == StepKind::kBackward || kind == StepKind::kInputGradient ||
         kind == StepKind::kWeightGradient;
}

}  // namespace

BlockKey SynthesisShape::OptimizerKey() const {
  const graph::ParallelSizes& sizes = rank.job.parallel;
  return {style_number,       static_cast<int64_t>(rank.dtype),
          sizes.tp,           sizes.cp,
          sizes.pp,           sizes.world_size(),
          rank.job.zero_stage};
}

StageSynthesis::StageSynthesis(const SynthesisShape& shape,
                               std::vector<ModelChunk> chunks,
                               const StageWriter& writer,
                               SharedPhrases* phrases)
    : shape_(shape),
      rank_(shape.rank),
      chunks_(std::move(chunks)),
      writer_(writer),
      phrases_(*phrases),
      batched_(BatchesMessages(shape.rank.style)) {
  size_t units = 0;
  for (const ModelChunk& chunk : chunks_) {
    alike_.push_back(phrases_.NumberOf(chunk));
    first_unit_.push_back(units);
    units += chunk.units.size();
  }
  const StageContext context = {&rank_,  shape.style_number,    &chunks_,        &writer_,
                                &alike_, &phrases_.gradients(), shape.timed_only};
  data_parallel_ = MakeDataParallel(context);
  held_states_ = {data_parallel_->held()};
  exchanges_.fill(kUnknown);
  batches_.fill(kUnknown);
  loss_scales_.fill(kUnknown);
}

bool StageSynthesis::Writes(const std::vector<ModelChunk>& chunks) const {
  return !writer_.marks() &&
         std::equal(chunks_.begin(), chunks_.end(), chunks.begin(), chunks.end(), HaveSameContent);
}

graph::PhrasedStage StageSynthesis::Run(int32_t stage, const JobSchedule& schedule, uint32_t kind) {
  data_parallel_->set_held(held_states_[kNothingHeld]);
  const JobSchedule::OfStage& scheduled = schedule.stages[static_cast<size_t>(stage)];
  graph::PhrasedStage phrased;
  phrased.kind = kind;
  phrased.steps.reserve(scheduled.phrases.size() + 2);
  phrased.steps.push_back(Once(&begin_, [this] { Begin(); }));
  if (writer_.marks()) {
    for (const StageStep& step : StageSteps(rank_.job, rank_.style, stage)) {
      phrased.steps.push_back(NewPhrase([&] { MarkedStep(step); }));
    }
  } else {
    AddUnmarked(schedule, scheduled.phrases, &phrased.steps);
    phrased.rounds.reserve(scheduled.rounds.size());
    for (const uint32_t round : scheduled.rounds) {
      phrased.rounds.push_back(round + 1);
    }
  }
  phrased.steps.push_back(Once(&end_, [this] { End(); }));
  return phrased;
}

template <typename Write>
uint32_t StageSynthesis::NewPhrase(Write write) {
  write();
  std::vector<uint32_t> calls = writer_.TakeCalls();
  return writer_.marks() ? phrases_.Add(std::move(calls)) : phrases_.NumberOf(std::move(calls));
}

template <typename Write>
uint32_t StageSynthesis::Once(uint32_t* phrase, Write write) {
  if (*phrase == kUnknown) {
    *phrase = NewPhrase(write);
  }
  return *phrase;
}

void StageSynthesis::Begin() {
  writer_.Marker("iteration", true);
  data_parallel_->BeginIteration();
}

void StageSynthesis::End() {
  writer_.Marker("gradient sync", true);
  data_parallel_->FinishGradients();
  writer_.Marker("gradient sync", false);
  writer_.Marker("optimizer", true);
  const OptimizerPieces pieces = data_parallel_->Pieces();
  if (!rank_.style.frozen_weights) {
    BlockKey key = shape_.OptimizerKey();
    key.insert(key.end(), {pieces.weights, static_cast<int64_t>(pieces.decay.size())});
    key.insert(key.end(), pieces.decay.begin(), pieces.decay.end());
    key.insert(key.end(), pieces.no_decay.begin(), pieces.no_decay.end());
    writer_.Emit(BlockKind::kOptimizer, std::move(key),
                 [&] { return OptimizerStep(rank_, pieces, &Tables(), Lists()).program; });
  }
  data_parallel_->FinishIteration();
  writer_.Marker("optimizer", false);
  if (rank_.built_in) {
    ReportAndSync();
  }
  writer_.Marker("iteration", false);
}

const ModelChunk& StageSynthesis::Chunk(const StageStep& step) const {
  return chunks_[static_cast<size_t>(step.chunk)];
}

void StageSynthesis::Step(const StageStep& step) {
  switch (step.kind) {
    case StepKind::kExchange:
      Exchange(step.exchange);
      return;
    case StepKind::kRelease:
      Release();
      return;
    default:
      IsBackward(step.kind) ? Backward(step) : Forward(step);
  }
}

void StageSynthesis::MarkedStep(const StageStep& step) {
  if (!IsPass(step.kind)) {
    Step(step);
    return;
  }
  const std::string microbatch = fmt::format("micro-batch {}", step.microbatch);
  const char* direction = step.kind == StepKind::kForward          ? "forward"
                          : step.kind == StepKind::kWeightGradient ? "weight gradient"
                                                                   : "backward";
  const std::string pass =
      rank_.job.parallel.vpp == 1 ? direction : fmt::format("{} chunk {}", direction, step.chunk);
  writer_.Marker(microbatch, true);
  writer_.Marker(pass, true);
  Step(step);
  writer_.Marker(pass, false);
  writer_.Marker(microbatch, false);
}

// A stage has thousands of steps: all but the first of their kind are looked up.
void StageSynthesis::AddUnmarked(const JobSchedule& schedule,
                                 const std::vector<uint32_t>& numbers,
                                 std::vector<uint32_t>* steps) {
  const size_t distinct = schedule.distinct.size();
  known_.resize(held_states_.size() * distinct);
  uint32_t held = kNothingHeld;
  const KnownPhrase* known = known_.data();  // after what is held
  const size_t first = steps->size();
  steps->resize(first + numbers.size());
  uint32_t* step = steps->data() + first;
  for (const uint32_t number : numbers) {
    KnownPhrase found = known[number];
    if (found.phrase == kUnknown) {
      found = Learn(schedule.distinct[number], held);
      known_.resize(held_states_.size() * distinct);
      known_[held * distinct + number] = found;
      known = known_.data() + held * distinct;
    }
    *step++ = found.phrase;
    if (found.held != held) {
      held = found.held;
      known = known_.data() + held * distinct;
    }
  }
}

StageSynthesis::KnownPhrase StageSynthesis::Learn(const std::vector<StageStep>& steps,
                                                  uint32_t held) {
  ParametersHeld after = held_states_[held];
  const uint32_t phrase = PhraseOf(steps, &after);
  return {phrase, after == held_states_[held] ? held : InternValue(held_states_, after)};
}

uint32_t StageSynthesis::PhraseOf(const std::vector<StageStep>& steps, ParametersHeld* held) {
  const auto pass = std::find_if(steps.begin(), steps.end(),
                                 [](const StageStep& step) { return IsPass(step.kind); });
  std::span<ParametersHeld::Of> mine;  // of the pass
  if (pass != steps.end() && !held->units.empty()) {
    const auto chunk = static_cast<size_t>(pass->chunk);
    mine = std::span(held->units).subspan(first_unit_[chunk], chunks_[chunk].units.size());
  }
  const auto [found, inserted] =
      phrases_.written().try_emplace(ContentOf(steps, held->copied_out, mine));
  SharedPhrases::Written& written = found->second;
  if (inserted) {
    data_parallel_->set_held(*held);
    written.phrase = NewPhrase([&] {
      for (const StageStep& step : steps) {
        Step(step);
      }
    });
    *held = data_parallel_->held();
    if (!mine.empty()) {
      mine = std::span(held->units)
                 .subspan(first_unit_[static_cast<size_t>(pass->chunk)], mine.size());
    }
    written.held.assign(mine.begin(), mine.end());
    written.copied_out = held->copied_out;
  } else {
    std::copy(written.held.begin(), written.held.end(), mine.begin());
    held->copied_out = written.copied_out;
  }
  return written.phrase;
}

const std::vector<int64_t>& StageSynthesis::ContentOf(const std::vector<StageStep>& steps,
                                                      bool copied_out,
                                                      std::span<const ParametersHeld::Of> mine) {
  std::vector<int64_t>& content = content_;
  content.clear();
  content.push_back(copied_out ? 1 : 0);
  for (const StageStep& step : steps) {
    content.push_back(static_cast<int64_t>(step.kind));
    if (!IsPass(step.kind)) {
      content.push_back(step.exchange.number());
      continue;
    }
    const auto chunk = static_cast<size_t>(step.chunk);
    const bool scales_loss = step.kind == StepKind::kForward && chunks_[chunk].last;
    content.insert(content.end(), {int64_t{alike_[chunk]}, data_parallel_->VariantOf(step),
                                   scales_loss && step.microbatch == 0 ? 1 : 0});
  }
  for (const ParametersHeld::Of unit : mine) {
    content.push_back(static_cast<int64_t>(unit));
  }
  return content;
}

void StageSynthesis::MarkUnit(const ChunkUnit& unit, bool begins) {
  if (writer_.marks()) {
    writer_.Marker(unit.Marker(), begins);
  }
}

void StageSynthesis::Forward(const StageStep& step) {
  const ModelChunk& chunk = Chunk(step);
  if (chunk.first || chunk.last) {
    uint32_t& block = batches_[(chunk.first ? 1U : 0U) + (chunk.last ? 2U : 0U)];
    if (block == kUnknown) {
      block = writer_.assembly().BlockFor(
          BlockKind::kBatch, {shape_.unit_number, chunk.first ? 1 : 0, chunk.last ? 1 : 0},
          [&] { return BatchLoad(shape_.unit, chunk.first, chunk.last, &Tables()).program; });
    }
    writer_.Call(block);
  }
  for (size_t unit = 0; unit < chunk.units.size(); ++unit) {
    MarkUnit(chunk.units[unit], true);
    data_parallel_->CallUnit({step.kind, step.chunk, unit, step.microbatch});
    MarkUnit(chunk.units[unit], false);
  }
  if (chunk.last) {
    const bool first = step.microbatch == 0;
    uint32_t& block = loss_scales_[first ? 1 : 0];
    if (block == kUnknown) {
      block = writer_.assembly().BlockFor(BlockKind::kLossScale, {first ? 1 : 0},
                                          [&] { return LossScale(first, &Tables()).program; });
    }
    writer_.Call(block);
  }
}

void StageSynthesis::Backward(const StageStep& step) {
  const ModelChunk& chunk = Chunk(step);
  for (size_t unit = chunk.units.size(); unit-- > 0;) {
    const bool marked = chunk.units[unit].kind == UnitKind::kLayer;
    if (marked) {
      MarkUnit(chunk.units[unit], true);
    }
    data_parallel_->CallUnit({step.kind, step.chunk, unit, step.microbatch});
    if (marked) {
      MarkUnit(chunk.units[unit], false);
    }
  }
  data_parallel_->EndBackward();
  if (batched_ && !chunk.first && step.kind == StepKind::kBackward) {
    Release();  // the activation that the chunk began with
  }
}

void StageSynthesis::Exchange(const StageExchange& exchange) {
  uint32_t& block = exchanges_[exchange.number()];
  if (block == kUnknown) {
    block = writer_.assembly().BlockOf(MessagesOf(rank_, exchange));
  }
  writer_.Call(block);
}

void StageSynthesis::Release() {
  if (release_ == kUnknown) {
    OpList ops;
    ops.Record(graph::StageStream(graph::GroupAxis::kPipeline));
    release_ = writer_.assembly().BlockOf(ops);
  }
  writer_.Call(release_);
}

void StageSynthesis::ReportAndSync() {
  if (chunks_.back().last) {
    writer_.Emit(BlockKind::kLossReport, shape_.OptimizerKey(),
                 [&] { return LossReport(rank_, &Tables()).program; });
  }
  OpList ops;
  ops.DeviceSync();
  writer_.Emit(ops);
}

}  // namespace prism::slicer
