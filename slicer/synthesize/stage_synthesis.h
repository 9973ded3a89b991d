// What the stages of a job that consist of the same layers do in an iteration, written as phrases.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/program/phrased_job.h"
#include "graph/program/rank_shape.h"
#include "slicer/synthesize/data_parallel.h"
#include "slicer/synthesize/job_assembly.h"
#include "slicer/synthesize/model_chunks.h"
#include "slicer/synthesize/pass_schedule.h"
#include "slicer/synthesize/shared_phrases.h"

namespace prism::slicer {

// What the writers of one job are given of it.
struct SynthesisShape {
  RankShape rank;
  RankShape unit;            // what writers of units see
  uint32_t unit_number = 0;  // of UnitCache
  uint32_t style_number = 0;
  bool timed_only = false;  // of PhraseSynthesizer

  // What the optimizer's kernels depend on besides its pieces.
  [[nodiscard]] BlockKey OptimizerKey() const;
};

// Writes the iterations of stages that consist of the same chunks: they differ only in the order of
// their passes, so each pass is written once.
class StageSynthesis {
 public:
  // `phrases` outlives this, and has the slots of the writer.
  StageSynthesis(const SynthesisShape& shape,
                 std::vector<ModelChunk> chunks,
                 const StageWriter& writer,
                 SharedPhrases* phrases);

  // Whether stages of those chunks can be written by this one; never with markers, which
  // distinguish layers that are otherwise equal.
  [[nodiscard]] bool Writes(const std::vector<ModelChunk>& chunks) const;

  // `kind`: the number of its shared phrases among those of the job.
  graph::PhrasedStage Run(int32_t stage, const JobSchedule& schedule, uint32_t kind);

 private:
  static constexpr uint32_t kNothingHeld = 0;  // index into held_states_
  static constexpr uint32_t kUnknown = 0xFFFFFFFFU;

  // What a phrase of the schedule calls and leaves held.
  struct KnownPhrase {
    uint32_t phrase = kUnknown;
    uint32_t held = kNothingHeld;
  };

  // The phrase that `write` writes.
  template <typename Write>
  uint32_t NewPhrase(Write write);

  // As NewPhrase, unless it is known.
  template <typename Write>
  uint32_t Once(uint32_t* phrase, Write write);

  void Begin();
  void End();
  [[nodiscard]] BlockTables& Tables() { return writer_.assembly().tables(); }
  [[nodiscard]] TensorLists Lists() const {
    return shape_.timed_only ? TensorLists::kSums : TensorLists::kWhole;
  }
  [[nodiscard]] const ModelChunk& Chunk(const StageStep& step) const;
  void Step(const StageStep& step);
  void MarkedStep(const StageStep& step);

  // Adds the steps that run these phrases of the schedule.
  void AddUnmarked(const JobSchedule& schedule,
                   const std::vector<uint32_t>& numbers,
                   std::vector<uint32_t>* steps);

  // A phrase with these steps, given what is held.
  KnownPhrase Learn(const std::vector<StageStep>& steps, uint32_t held);

  // The phrase for these steps, given what is held. Passes of chunks that consist of the same units
  // are usually the same phrase (DataParallel::VariantOf).
  uint32_t PhraseOf(const std::vector<StageStep>& steps, ParametersHeld* held);

  // Everything that decides the result of PhraseOf. `mine`: held units of the pass.
  const std::vector<int64_t>& ContentOf(const std::vector<StageStep>& steps,
                                        bool copied_out,
                                        std::span<const ParametersHeld::Of> mine);

  void MarkUnit(const ChunkUnit& unit, bool begins);
  void Forward(const StageStep& step);
  void Backward(const StageStep& step);
  void Exchange(const StageExchange& exchange);

  // A tensor that was on the stream of messages is freed: libtorch's allocator records an event
  // there.
  void Release();

  void ReportAndSync();

  const SynthesisShape& shape_;
  const RankShape& rank_;
  std::vector<ModelChunk> chunks_;
  StageWriter writer_;
  SharedPhrases& phrases_;
  bool batched_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::vector<ParametersHeld> held_states_;  // distinct; first: before an iteration
  uint32_t begin_ = kUnknown;                // phrases
  uint32_t end_ = kUnknown;
  std::vector<KnownPhrase> known_;  // by held and distinct phrase of the schedule
  std::vector<size_t> first_unit_;  // by chunk: units before it
  std::vector<uint32_t> alike_;     // of StageContext
  std::vector<int64_t> content_;    // that ContentOf gives
  // Blocks, made when first needed.
  std::array<uint32_t, StageExchange::kDistinct> exchanges_;
  std::array<uint32_t, 4> batches_;      // by first and last chunk
  std::array<uint32_t, 2> loss_scales_;  // of other micro-batches, and of the first
  uint32_t release_ = kUnknown;
};

}  // namespace prism::slicer
