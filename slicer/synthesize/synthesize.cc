#include "slicer/synthesize/synthesize.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "graph/program/job_groups.h"
#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/data_parallel.h"
#include "slicer/synthesize/job_assembly.h"
#include "slicer/synthesize/model_chunks.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/stage_messages.h"

namespace prism::slicer {
namespace {

Status CheckJob(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  PRISM_RETURN_IF_ERROR(graph::CheckGroups(job.parallel, style.shard_size));
  if (job.model.layers < 1 || job.model.hidden < 1 || job.model.heads < 1 || job.seq_len < 1) {
    return InvalidArgument(fmt::format("the shape of model {} is incomplete", job.model.name));
  }
  const RankShape rank(job, style);
  const bool has_dense_layers = job.model.moe.experts == 0 || job.model.moe.dense_layers > 0;
  if (rank.batch < 1 || rank.shard < 1 || rank.heads < 1 || rank.head_size < 1 ||
      (has_dense_layers && rank.ffn < 1)) {
    return InvalidArgument(fmt::format(
        "a rank with tp {} x cp {} has no part of the model's heads, feed-forward layers or tokens",
        job.parallel.tp, job.parallel.cp));
  }
  return CheckSchedule(job, style);
}

// What the writers of one job are given of it.
struct SynthesisShape {
  RankShape rank;
  RankShape unit;  // what writers of units see
};

bool IsBackward(StepKind kind) {
  return kind == StepKind::kBackward || kind == StepKind::kInputGradient ||
         kind == StepKind::kWeightGradient;
}

// Writes the iterations of stages that consist of the same chunks: they differ only in the order of
// their passes. A stage has thousands of passes, but of micro-batches only the first and the last
// are distinguished, so each kind of pass is written once and then copied.
class StageSynthesis {
 public:
  // `shape` and `assembly` outlive this. `marks` off: markers are left out.
  StageSynthesis(const SynthesisShape& shape,
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

  // Whether stages of those chunks can be written by this one; never with markers, which
  // distinguish layers that are otherwise equal.
  [[nodiscard]] bool Writes(const std::vector<ModelChunk>& chunks) const {
    return !writer_.marks() && std::equal(chunks_.begin(), chunks_.end(), chunks.begin(),
                                          chunks.end(), HaveSameContent);
  }

  graph::StageProgram Run(int32_t stage) {
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

 private:
  static constexpr uint32_t kUnknown = 0xFFFFFFFFU;

  // What a pass calls, and what it leaves held (index into held_states_).
  struct Written {
    std::vector<uint32_t> calls;
    size_t held = 0;
  };

  void Begin() {
    writer_.Marker("iteration", true);
    data_parallel_->BeginIteration();
  }

  void End() {
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

  [[nodiscard]] BlockTables& Tables() { return writer_.assembly().tables(); }

  [[nodiscard]] const ModelChunk& Chunk(const StageStep& step) const {
    return chunks_[static_cast<size_t>(step.chunk)];
  }

  void Step(const StageStep& step) {
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

  void MarkedPass(const StageStep& step) {
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

  // copied, if one of its kind was written before
  void KnownPass(const StageStep& step) {
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

  void Pass(const StageStep& step) { IsBackward(step.kind) ? Backward(step) : Forward(step); }

  void MarkUnit(const ChunkUnit& unit, bool begins) {
    if (writer_.marks()) {
      writer_.Marker(unit.Marker(), begins);
    }
  }

  void Forward(const StageStep& step) {
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

  void Backward(const StageStep& step) {
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

  void Exchange(const StageExchange& exchange) {
    uint32_t& block = exchanges_[exchange.number()];
    if (block == kUnknown) {
      block = writer_.assembly().BlockOf(MessagesOf(rank_, exchange));
    }
    writer_.Call(block);
  }

  // A tensor that was on the stream of messages is freed: libtorch's allocator records an event
  // there.
  void Release() {
    if (release_ == kUnknown) {
      OpList ops;
      ops.Record(graph::StageStream(graph::GroupAxis::kPipeline));
      release_ = writer_.assembly().BlockOf(ops);
    }
    writer_.Call(release_);
  }

  void ReportAndSync() {
    if (chunks_.back().last) {
      writer_.Emit(BlockKind::kLossReport, {},
                   [&] { return LossReport(rank_, &Tables()).program; });
    }
    OpList ops;
    ops.DeviceSync();
    writer_.Emit(ops);
  }

  const SynthesisShape& shape_;
  const RankShape& rank_;
  std::vector<ModelChunk> chunks_;
  EventSlots slots_;
  StageWriter writer_;
  bool batched_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::vector<ParametersHeld> held_states_;      // distinct; first: before an iteration
  size_t held_ = 0;                              // now; index into held_states_
  std::vector<std::optional<Written>> written_;  // by what is held, chunk, kind and place of a pass
  std::optional<std::vector<uint32_t>> end_;     // calls of End
  // Blocks, made when first needed.
  std::array<uint32_t, StageExchange::kDistinct> exchanges_;
  std::array<uint32_t, 4> batches_;      // by first and last chunk
  std::array<uint32_t, 2> loss_scales_;  // of other micro-batches, and of the first
  uint32_t release_ = kUnknown;
};

// Makes the iteration one launch.
void LaunchAsGraph(graph::JobProgram* program) {
  for (graph::Program& block : program->blocks) {
    for (uint8_t& flags : block.flags) {
      flags |= graph::kLaunchedWithPrevious;
    }
  }
}

}  // namespace

Result<graph::JobProgram> Synthesize(const graph::JobSpec& job,
                                     const graph::TrainingStyle& style,
                                     Markers markers) {
  PRISM_RETURN_IF_ERROR(CheckJob(job, style));
  const SynthesisShape shape = {RankShape(job, style), RankShape(UnitJob(job), UnitStyle(style))};
  JobAssembly assembly;
  ChunkMaker maker(shape.unit, &assembly);
  graph::JobProgram program;
  program.job = job;
  program.style = style;
  std::vector<std::unique_ptr<StageSynthesis>> kinds;  // their data parallelism points into them
  for (int32_t stage = 0; stage < job.parallel.pp; ++stage) {
    std::vector<ModelChunk> chunks;
    for (int32_t chunk = 0; chunk < job.parallel.vpp; ++chunk) {
      chunks.push_back(maker.Make(shape.rank, stage, chunk));
    }
    auto kind =
        std::ranges::find_if(kinds, [&](const auto& known) { return known->Writes(chunks); });
    if (kind == kinds.end()) {
      kind = kinds.insert(kind, std::make_unique<StageSynthesis>(
                                    shape, std::move(chunks), &assembly, markers == Markers::kAll));
    }
    program.stages.push_back((*kind)->Run(stage));
  }
  assembly.MoveInto(&program);
  if (style.host_cost == graph::HostCost::kGraph) {
    LaunchAsGraph(&program);
  }
  return program;
}

}  // namespace prism::slicer
