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

StageSynthesis::StageSynthesis(const SynthesisShape& shape,
                               std::vector<ModelChunk> chunks,
                               JobAssembly* assembly,
                               bool marks)
    : shape_(shape),
      rank_(shape.rank),
      chunks_(std::move(chunks)),
      writer_(assembly, &slots_, marks),
      batched_(BatchesMessages(shape.rank.style)),
      data_parallel_(MakeDataParallel({&rank_, &chunks_, &writer_})),
      held_states_({data_parallel_->held()}) {
  exchanges_.fill(kUnknown);
  batches_.fill(kUnknown);
  loss_scales_.fill(kUnknown);
}

bool StageSynthesis::Writes(const std::vector<ModelChunk>& chunks) const {
  return !writer_.marks() &&
         std::equal(chunks_.begin(), chunks_.end(), chunks.begin(), chunks.end(), HaveSameContent);
}

graph::StageProgram StageSynthesis::Run(int32_t stage) {
  held_ = 0;
  data_parallel_->set_held(held_states_.front());
  const std::vector<StageStep> steps = StageSteps(rank_.job, rank_.style, stage);
  const std::vector<uint32_t> rounds = SteadyRounds(rank_.job.parallel, steps);
  graph::StageProgram program;
  auto round = rounds.begin();
  Begin();
  for (uint32_t i = 0; i < steps.size(); ++i) {
    if (round != rounds.end() && *round == i) {
      program.rounds.push_back(writer_.call_count());
      ++round;
    }
    Step(steps[i]);
  }
  program.calls = writer_.TakeCalls();
  if (!end_.has_value()) {
    End();
    end_ = writer_.TakeCalls();
  }
  program.calls.insert(program.calls.end(), end_->begin(), end_->end());
  program.event_slot_count = slots_.count();
  return program;
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
    BlockKey key = {pieces.weights, static_cast<int64_t>(pieces.decay.size())};
    key.insert(key.end(), pieces.decay.begin(), pieces.decay.end());
    key.insert(key.end(), pieces.no_decay.begin(), pieces.no_decay.end());
    writer_.Emit(BlockKind::kOptimizer, std::move(key),
                 [&] { return OptimizerStep(rank_, pieces, &Tables()).program; });
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
  if (step.kind == StepKind::kExchange) {
    Exchange(step.exchange);
  } else if (step.kind == StepKind::kRelease) {
    Release();
  } else if (writer_.marks()) {
    MarkedPass(step);
  } else {
    KnownPass(step);
  }
}

void StageSynthesis::MarkedPass(const StageStep& step) {
  const std::string microbatch = fmt::format("micro-batch {}", step.microbatch);
  const char* direction = step.kind == StepKind::kForward          ? "forward"
                          : step.kind == StepKind::kWeightGradient ? "weight gradient"
                                                                   : "backward";
  const std::string pass =
      rank_.job.parallel.vpp == 1 ? direction : fmt::format("{} chunk {}", direction, step.chunk);
  writer_.Marker(microbatch, true);
  writer_.Marker(pass, true);
  Pass(step);
  writer_.Marker(pass, false);
  writer_.Marker(microbatch, false);
}

void StageSynthesis::KnownPass(const StageStep& step) {
  constexpr size_t kPlaces = 3;
  constexpr size_t kKinds = 4;
  const size_t place = step.microbatch == rank_.job.microbatches() - 1 ? 2
                       : step.microbatch > 0                           ? 1
                                                                       : 0;
  const size_t pass = static_cast<size_t>(step.chunk) * kKinds + static_cast<size_t>(step.kind);
  const size_t index = (held_ * chunks_.size() * kKinds + pass) * kPlaces + place;
  if (index >= written_.size()) {
    written_.resize(index + 1);
  }
  std::optional<Written>& written = written_[index];
  if (!written.has_value()) {
    std::vector<uint32_t> before = writer_.TakeCalls();
    data_parallel_->set_held(held_states_[held_]);
    Pass(step);
    written = {writer_.TakeCalls(), InternValue(held_states_, data_parallel_->held())};
    writer_.Call(before);
  }
  writer_.Call(written->calls);
  held_ = written->held;
}

void StageSynthesis::Pass(const StageStep& step) {
  IsBackward(step.kind) ? Backward(step) : Forward(step);
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
          BlockKind::kBatch, {chunk.first ? 1 : 0, chunk.last ? 1 : 0},
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
    writer_.Emit(BlockKind::kLossReport, {}, [&] { return LossReport(rank_, &Tables()).program; });
  }
  OpList ops;
  ops.DeviceSync();
  writer_.Emit(ops);
}

}  // namespace prism::slicer
