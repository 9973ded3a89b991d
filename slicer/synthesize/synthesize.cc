#include "slicer/synthesize/synthesize.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/intern.h"
#include "graph/job_groups.h"
#include "slicer/synthesize/data_parallel.h"
#include "slicer/synthesize/job_assembly.h"
#include "slicer/synthesize/model_chunks.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/phrase_synthesizer.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

bool IsBackward(StepKind kind) {
  return kind == StepKind::kBackward || kind == StepKind::kInputGradient ||
         kind == StepKind::kWeightGradient;
}

bool HaveSameContent(const ModelChunk& a, const ModelChunk& b) {
  const auto same = [](const ChunkUnit& x, const ChunkUnit& y) {
    return x.kind == y.kind && x.content == y.content;
  };
  return a.first == b.first && a.last == b.last &&
         std::equal(a.units.begin(), a.units.end(), b.units.begin(), b.units.end(), same);
}

// What the writers of one job are told of it.
struct SynthesisShape {
  RankShape rank;
  RankShape unit;            // what writers of units see
  uint32_t unit_number = 0;  // of UnitCache
  uint32_t style_number = 0;

  // What the optimizer's kernels depend on beside its pieces.
  [[nodiscard]] std::string OptimizerKey() const {
    const graph::ParallelSizes& sizes = rank.job.parallel;
    return fmt::format("{} {} {} {} {} {} {}", style_number, static_cast<int>(rank.dtype), sizes.tp,
                       sizes.cp, sizes.pp, sizes.world_size(), rank.job.zero_stage);
  }
};

// Writes the iterations of stages that are made of the same chunks: they differ in the order of
// their passes only, so that each pass is worked out once.
class StageSynthesis {
 public:
  StageSynthesis(const SynthesisShape& shape,
                 std::vector<ModelChunk> chunks,
                 const StageWriter& writer)
      : shape_(shape),
        rank_(shape.rank),
        chunks_(std::move(chunks)),
        writer_(writer),
        batched_(BatchesMessages(shape.rank.style)) {
    const StageContext context = {&rank_, shape.style_number, &chunks_, &writer_};
    const bool sharded =
        rank_.style.data_parallel == graph::DataParallelKind::kFsdp || rank_.job.zero_stage == 3;
    data_parallel_ = sharded ? MakeShardedDataParallel(context) : MakeBucketedDataParallel(context);
    held_states_ = {data_parallel_->held()};
    exchanges_.fill(kUnknown);
  }

  // Markers tell layers apart that are alike otherwise.
  [[nodiscard]] bool Writes(const std::vector<ModelChunk>& chunks) const {
    return !writer_.marks() && std::equal(chunks_.begin(), chunks_.end(), chunks.begin(),
                                          chunks.end(), HaveSameContent);
  }

  // `kind`: the number of this synthesis among those of the job.
  graph::PhrasedStage Run(int32_t stage, const JobSchedule& schedule, uint32_t kind) {
    held_ = kNothingHeld;
    data_parallel_->set_held(held_states_[held_]);
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
      for (const uint32_t phrase : scheduled.phrases) {
        phrased.steps.push_back(UnmarkedPhrase(schedule, phrase));
      }
      for (const uint32_t round : scheduled.rounds) {
        phrased.rounds.push_back(round + 1);
      }
    }
    phrased.steps.push_back(Once(&end_, [this] { End(); }));
    return phrased;
  }

  [[nodiscard]] graph::PhrasedKind TakePhrases() {
    return {std::move(phrases_), writer_.event_slot_count()};
  }

 private:
  static constexpr uint32_t kNothingHeld = 0;
  static constexpr uint32_t kUnknown = 0xFFFFFFFFU;

  // The phrase that `write` writes.
  template <typename Write>
  uint32_t NewPhrase(Write write) {
    write();
    std::vector<uint32_t> calls = writer_.TakeCalls();
    if (writer_.marks()) {
      phrases_.push_back(std::move(calls));
      return static_cast<uint32_t>(phrases_.size() - 1);
    }
    return InternValue(phrases_, calls);
  }

  // Likewise, unless it is known.
  template <typename Write>
  uint32_t Once(uint32_t* phrase, Write write) {
    if (*phrase == kUnknown) {
      *phrase = NewPhrase(write);
    }
    return *phrase;
  }

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
      const std::string key =
          fmt::format("optimizer {} {} {} {}", shape_.OptimizerKey(), fmt::join(pieces.decay, ","),
                      fmt::join(pieces.no_decay, ","), pieces.weights);
      writer_.Emit(key, [&] { return OptimizerStep(rank_, pieces, &Tables()).program; });
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

  void MarkedStep(const StageStep& step) {
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

  // Passes of first, inner and last micro-batches that find the same parameters held are the same.
  uint32_t UnmarkedPhrase(const JobSchedule& schedule, uint32_t number) {
    const size_t key = size_t{held_} * schedule.distinct.size() + number;
    if (key >= known_.size()) {
      known_.resize((size_t{held_} + 1) * schedule.distinct.size());
    }
    if (known_[key].phrase == kUnknown) {
      data_parallel_->set_held(held_states_[held_]);
      const uint32_t phrase = NewPhrase([&] {
        for (const StageStep& step : schedule.distinct[number]) {
          Step(step);
        }
      });
      known_[key] = {phrase, InternValue(held_states_, data_parallel_->held())};
    }
    held_ = known_[key].held;
    return known_[key].phrase;
  }

  void Forward(const StageStep& step) {
    const ModelChunk& chunk = Chunk(step);
    if (chunk.first || chunk.last) {
      writer_.Emit(fmt::format("batch {} {} {}", shape_.unit_number, chunk.first, chunk.last), [&] {
        return BatchLoad(shape_.unit, chunk.first, chunk.last, &Tables()).program;
      });
    }
    for (size_t unit = 0; unit < chunk.units.size(); ++unit) {
      writer_.Marker(chunk.units[unit].marker, true);
      data_parallel_->CallUnit({step.kind, step.chunk, unit, step.microbatch});
      writer_.Marker(chunk.units[unit].marker, false);
    }
    if (chunk.last) {
      const bool first = step.microbatch == 0;
      writer_.Emit(fmt::format("loss scale {}", first),
                   [&] { return LossScale(first, &Tables()).program; });
    }
  }

  void Backward(const StageStep& step) {
    const ModelChunk& chunk = Chunk(step);
    for (size_t unit = chunk.units.size(); unit-- > 0;) {
      const bool marked = chunk.units[unit].kind == UnitKind::kLayer;
      if (marked) {
        writer_.Marker(chunk.units[unit].marker, true);
      }
      data_parallel_->CallUnit({step.kind, step.chunk, unit, step.microbatch});
      if (marked) {
        writer_.Marker(chunk.units[unit].marker, false);
      }
    }
    if (batched_ && !chunk.first && step.kind == StepKind::kBackward) {
      Release();  // of the activation that the chunk began with
    }
  }

  void Exchange(const StageExchange& exchange) {
    uint32_t& block = exchanges_[exchange.number()];
    if (block == kUnknown) {
      block = writer_.assembly().BlockOf(batched_ ? ExchangeBatched(exchange)
                                                  : ExchangeApart(exchange));
    }
    writer_.Call(block);
  }

  // A tensor that was on the stream of messages is freed: libtorch's allocator records an event
  // there.
  void Release() {
    OpList ops;
    ops.Record(graph::StageStream(GroupAxis::kPipeline));
    writer_.Emit(ops);
  }

  [[nodiscard]] int64_t MessageBytes() const {
    int64_t bytes = rank_.shard * rank_.batch * rank_.hidden * graph::DataTypeBytes(rank_.dtype);
    if (rank_.style.scatter_gather_p2p && !rank_.sequence_parallel) {
      bytes /= rank_.job.parallel.tp;
    }
    return bytes;
  }

  [[nodiscard]] graph::PeerTransfer Transfer(bool is_send,
                                             graph::PeerSlot peer,
                                             GroupAxis axis) const {
    return {is_send, graph::SlotOf(axis), graph::SlotOf(peer), MessageBytes()};
  }

  // Forward direction first: with two stages both neighbours are one rank, and transfers between a
  // pair match in order. Each of them makes the stream of messages wait for the compute stream.
  [[nodiscard]] OpList ExchangeBatched(const StageExchange& exchange) const {
    constexpr GroupAxis kAxis = GroupAxis::kPipeline;
    const uint16_t stream = graph::StageStream(kAxis);
    graph::PeerGroup group;
    if (exchange.to_next) {
      group.transfers.push_back(Transfer(true, graph::PeerSlot::kNext, kAxis));
    }
    if (exchange.from_previous) {
      group.transfers.push_back(Transfer(false, graph::PeerSlot::kPrevious, kAxis));
    }
    if (exchange.to_previous) {
      group.transfers.push_back(Transfer(true, graph::PeerSlot::kPrevious, kAxis));
    }
    if (exchange.from_next) {
      group.transfers.push_back(Transfer(false, graph::PeerSlot::kNext, kAxis));
    }
    OpList ops;
    if (rank_.style.serial_p2p) {
      for (const graph::PeerTransfer& transfer : group.transfers) {
        ops.Wait(stream, ops.Record(graph::kStageComputeStream));
        ops.PeerGroup(stream, {{transfer}});
        ops.Wait(graph::kStageComputeStream, ops.Record(stream));
      }
    } else {
      for (size_t i = 0; i < group.transfers.size(); ++i) {
        ops.Wait(stream, ops.Record(graph::kStageComputeStream));
      }
      ops.PeerGroup(stream, group);
      ops.Wait(graph::kStageComputeStream, ops.Record(stream));
    }
    // What was sent is freed.
    for (int i = 0; i < (exchange.to_next ? 1 : 0) + (exchange.to_previous ? 1 : 0); ++i) {
      ops.Record(stream);
    }
    if (exchange.from_previous || exchange.from_next) {
      GatherReceived(&ops);
    }
    return ops;
  }

  // One message: received on a stream of its own, so that it does not stand behind a send.
  [[nodiscard]] OpList ExchangeApart(const StageExchange& exchange) const {
    const bool forward = exchange.to_next || exchange.from_previous;
    const GroupAxis axis = forward ? GroupAxis::kPipelineForward : GroupAxis::kPipelineBackward;
    const uint16_t receive =
        forward ? graph::kStageReceiveForwardStream : graph::kStageReceiveBackwardStream;
    OpList ops;
    if (exchange.to_next || exchange.to_previous) {
      const uint16_t send = graph::StageStream(axis);
      ops.Wait(send, ops.Record(graph::kStageComputeStream));
      ops.PeerGroup(
          send,
          {{Transfer(true, forward ? graph::PeerSlot::kNext : graph::PeerSlot::kPrevious, axis)}});
    } else {
      ops.PeerGroup(
          receive,
          {{Transfer(false, forward ? graph::PeerSlot::kPrevious : graph::PeerSlot::kNext, axis)}});
      ops.Wait(graph::kStageComputeStream, ops.Record(receive));
    }
    if (exchange.from_previous || exchange.from_next) {
      GatherReceived(&ops);
    }
    return ops;
  }

  // Megatron's scatter-gather optimisation: what came in parts is put together inside the node.
  void GatherReceived(OpList* ops) const {
    if (!rank_.style.scatter_gather_p2p || rank_.sequence_parallel || rank_.job.parallel.tp == 1) {
      return;
    }
    ops->Blocking(GroupAxis::kTensor,
                  AllGatherOf(rank_.dtype, rank_.shard * rank_.batch * rank_.hidden));
  }

  void ReportAndSync() {
    if (chunks_.back().last) {
      writer_.Emit("loss report " + shape_.OptimizerKey(),
                   [&] { return LossReport(rank_, &Tables()).program; });
    }
    OpList ops;
    ops.DeviceSync();
    writer_.Emit(ops);
  }

  // What a phrase of the schedule calls, and what it leaves held.
  struct KnownPhrase {
    uint32_t phrase = kUnknown;
    uint32_t held = kNothingHeld;
  };

  const SynthesisShape& shape_;
  const RankShape& rank_;
  std::vector<ModelChunk> chunks_;
  StageWriter writer_;
  bool batched_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::vector<ParametersHeld>
      held_states_;               // distinct; what is held in front of an iteration first
  uint32_t held_ = kNothingHeld;  // what unmarked passes have left, of these
  std::vector<std::vector<uint32_t>> phrases_;
  uint32_t begin_ = kUnknown;  // phrases
  uint32_t end_ = kUnknown;
  std::vector<KnownPhrase> known_;  // by held and distinct phrase of the schedule
  std::array<uint32_t, StageExchange::kDistinct> exchanges_;  // blocks
};

Status CheckJob(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  PRISM_RETURN_IF_ERROR(graph::CheckGroups(job.parallel, style.shard_size));
  if (job.model.layers < 1 || job.model.hidden < 1 || job.model.heads < 1 || job.seq_len < 1) {
    return InvalidArgument(fmt::format("the shape of model {} is incomplete", job.model.name));
  }
  const RankShape rank(job, style);
  const bool has_dense_layers = job.model.moe.experts == 0 || job.model.moe.dense_layers > 0;
  if (rank.batch < 1 || rank.shard < 1 || rank.heads < 1 || rank.head_size < 1 ||
      (has_dense_layers && rank.ffn < 1)) {
    return InvalidArgument(
        fmt::format("a rank of tp {} x cp {} has nothing of the model's heads, feed-forward layers "
                    "or tokens",
                    job.parallel.tp, job.parallel.cp));
  }
  return CheckSchedule(job, style);
}

// The iteration is one launch.
void LaunchAsGraph(size_t first, graph::JobProgram* program) {
  for (size_t block = first; block < program->blocks.size(); ++block) {
    for (uint8_t& flags : program->blocks[block].flags) {
      flags |= graph::kLaunchedWithPrevious;
    }
  }
}

}  // namespace

Result<graph::PhrasedJob> PhraseSynthesizer::Run(const graph::JobSpec& job,
                                                 const graph::TrainingStyle& style,
                                                 Markers markers) {
  PRISM_RETURN_IF_ERROR(CheckJob(job, style));
  PRISM_CHECK((style.host_cost == graph::HostCost::kGraph) == launched_as_graph_);
  assembly_.MoveFrom(program_.get());
  const graph::JobSpec unit_job = UnitCache::UnitJob(job);
  const graph::TrainingStyle unit_style = UnitCache::UnitStyle(style);
  const SynthesisShape shape = {RankShape(job, style), RankShape(unit_job, unit_style),
                                units_.ShapeOf(unit_job, unit_style), units_.StyleOf(style)};
  ChunkMaker maker(shape.unit, shape.unit_number, &assembly_, &units_);
  graph::PhrasedJob phrased;
  phrased.job = job;
  phrased.style = style;
  phrased.program = program_;
  const JobSchedule& schedule = schedules_.Find(job, style);
  std::vector<std::unique_ptr<StageSynthesis>> kinds;  // their data parallelism points into them
  for (int32_t stage = 0; stage < job.parallel.pp; ++stage) {
    std::vector<ModelChunk> chunks;
    for (int32_t chunk = 0; chunk < job.parallel.vpp; ++chunk) {
      chunks.push_back(maker.Make(shape.rank, stage, chunk));
    }
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const auto& known) { return known->Writes(chunks); });
    if (kind == kinds.end()) {
      kind = kinds.insert(
          kind, std::make_unique<StageSynthesis>(
                    shape, std::move(chunks), StageWriter(&assembly_, markers == Markers::kAll)));
    }
    phrased.stages.push_back(
        (*kind)->Run(stage, schedule, static_cast<uint32_t>(kind - kinds.begin())));
  }
  for (const auto& kind : kinds) {
    phrased.kinds.push_back(kind->TakePhrases());
  }
  assembly_.MoveInto(program_.get());
  if (launched_as_graph_) {
    LaunchAsGraph(known_blocks_, program_.get());
  }
  for (; known_blocks_ < program_->blocks.size(); ++known_blocks_) {
    op_count_ += program_->blocks[known_blocks_].size();
  }
  return phrased;
}

Result<graph::PhrasedJob> SynthesizePhrases(const graph::JobSpec& job,
                                            const graph::TrainingStyle& style,
                                            Markers markers) {
  return PhraseSynthesizer(style.host_cost == graph::HostCost::kGraph).Run(job, style, markers);
}

Result<graph::JobProgram> Synthesize(const graph::JobSpec& job,
                                     const graph::TrainingStyle& style,
                                     Markers markers) {
  PRISM_ASSIGN_OR_RETURN(const graph::PhrasedJob phrased, SynthesizePhrases(job, style, markers));
  return graph::WriteOut(phrased);
}

}  // namespace prism::slicer
