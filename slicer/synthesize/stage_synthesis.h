// What the stages of a job that consist of the same layers do in an iteration.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "graph/program/job_program.h"
#include "graph/program/rank_shape.h"
#include "slicer/synthesize/data_parallel.h"
#include "slicer/synthesize/job_assembly.h"
#include "slicer/synthesize/model_chunks.h"
#include "slicer/synthesize/pass_schedule.h"

namespace prism::slicer {

// What the writers of one job are given of it.
struct SynthesisShape {
  RankShape rank;
  RankShape unit;  // what writers of units see
};

// Writes the iterations of stages that consist of the same chunks: they differ only in the order of
// their passes. A stage has thousands of passes, but of micro-batches only the first and the last
// are distinguished, so each kind of pass is written once and then copied.
class StageSynthesis {
 public:
  // `shape` and `assembly` outlive this. `marks` off: markers are left out.
  StageSynthesis(const SynthesisShape& shape,
                 std::vector<ModelChunk> chunks,
                 JobAssembly* assembly,
                 bool marks);

  // Whether stages of those chunks can be written by this one; never with markers, which
  // distinguish layers that are otherwise equal.
  [[nodiscard]] bool Writes(const std::vector<ModelChunk>& chunks) const;

  graph::StageProgram Run(int32_t stage);

 private:
  static constexpr uint32_t kUnknown = 0xFFFFFFFFU;

  // What a pass calls, and what it leaves held (index into held_states_).
  struct Written {
    std::vector<uint32_t> calls;
    size_t held = 0;
  };

  void Begin();
  void End();
  [[nodiscard]] BlockTables& Tables() { return writer_.assembly().tables(); }
  [[nodiscard]] const ModelChunk& Chunk(const StageStep& step) const;

  void Step(const StageStep& step);
  void MarkedPass(const StageStep& step);
  void KnownPass(const StageStep& step);  // copied, if one of its kind was written before
  void Pass(const StageStep& step);

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

}  // namespace prism::slicer
