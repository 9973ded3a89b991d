// What data parallelism adds to a stage: around every unit, before and after the passes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "slicer/synthesize/grad_buckets.h"
#include "slicer/synthesize/model_chunks.h"
#include "slicer/synthesize/pass_schedule.h"

namespace prism::slicer {

// One unit in one pass.
struct UnitCall {
  StepKind pass = StepKind::kForward;
  int32_t chunk = 0;
  size_t unit = 0;  // index into ModelChunk::units
  int64_t microbatch = 0;
};

// What the writer of a stage shares with the writer of its data parallelism.
struct StageContext {
  const RankShape* rank = nullptr;
  const std::vector<ModelChunk>* chunks = nullptr;
  StageWriter* writer = nullptr;
};

// State left by passes that decides what later ones emit: which sharded parameters are present or
// in flight, and whether a gather has a copy to wait for.
struct ParametersHeld {
  enum class Of : uint8_t { kShard, kInFlight, kGathered };

  std::vector<Of> units;  // of all chunks in turn; empty if parameters are not sharded
  bool copied_out = false;

  bool operator==(const ParametersHeld&) const = default;
};

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  // Before the first pass. Nothing is held then.
  virtual void BeginIteration() = 0;

  // Emits the unit's block of that pass with everything around it.
  virtual void CallUnit(const UnitCall& call) = 0;

  // After the units of a backward pass.
  virtual void EndBackward() = 0;

  [[nodiscard]] const ParametersHeld& held() const { return held_; }
  void set_held(ParametersHeld held) { held_ = std::move(held); }

  // After the last pass: gradients are reduced.
  virtual void FinishGradients() = 0;

  // What this rank's optimizer updates.
  [[nodiscard]] virtual OptimizerPieces Pieces() const = 0;

  // After the optimizer's step.
  virtual void FinishIteration() = 0;

 protected:
  DataParallel() = default;
  DataParallel(const DataParallel&) = default;
  DataParallel& operator=(const DataParallel&) = default;

  ParametersHeld held_;
};

// The data parallelism of the job and style.
std::unique_ptr<DataParallel> MakeDataParallel(const StageContext& context);

// Flat buffers and buckets (Megatron-LM's DDP with and without its distributed optimizer,
// DeepSpeed's ZeRO 2, that of the built-in workload).
std::unique_ptr<DataParallel> MakeBucketedDataParallel(const StageContext& context);

// Parameters sharded by unit (FSDP, ZeRO 3).
std::unique_ptr<DataParallel> MakeShardedDataParallel(const StageContext& context);

// ZeRO 3 of the built-in workload.
std::unique_ptr<DataParallel> MakeWorkloadSharding(const StageContext& context);

// The block that a call refers to, and its index.
const Block& BlockOfCall(const UnitContent& content, StepKind pass);
uint32_t IndexOfCall(const UnitContent& content, StepKind pass);

}  // namespace prism::slicer
