// What the forward and backward passes of a pipeline stage allocate and free, unit by unit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replayer/memory/chunk_passes.h"
#include "replayer/memory/offloaded_layers.h"
#include "replayer/memory/pass_repeats.h"
#include "replayer/memory/sharded_parameters.h"
#include "replayer/memory/stage_units.h"
#include "replayer/memory/tensor_blocks.h"

namespace prism::replayer {

// What else has to do with the passes of a stage.
struct BesidePasses {
  std::vector<Tensor> of_deferred_head;
  int64_t deferred_heads = 0;
  OffloadedLayers* offloaded = nullptr;  // null if activations stay on the device
  ShardedParameters* sharded = nullptr;  // null if parameters are not sharded
};

class StagePasses {
 public:
  StagePasses(const StageUnits& units, int64_t chunks, BesidePasses beside, MemoryAccount* account);

  // `everything`: also passes that repeat others, and tensors that nothing shows.
  void Run(const std::vector<ChunkPass>& passes, bool everything);

 private:
  [[nodiscard]] std::optional<PassRepeats> PairsOf(const std::vector<ChunkPass>& passes) const;
  [[nodiscard]] bool Leaves(int64_t chunk, int64_t place) const;
  void Forward(int64_t chunk);
  void ForwardOf(const StageUnit& unit, bool is_head, MemoryBlocks* saved);
  void Backward(int64_t chunk, bool last);
  void MakeGradients(const StageUnit& unit, int64_t chunk, int64_t place);
  void Pass(const std::vector<Tensor>& tensors, const PassingTensors& passing);

  const StageUnits& units_;
  BesidePasses beside_;
  MemoryAccount* account_;
  std::vector<BlocksInFlight> in_flight_;  // by chunk, oldest micro-batch first
  int64_t to_defer_;                       // backward passes of a head still to defer
  MemoryBlocks deferred_;
  MemoryBlocks temporaries_;
  bool everything_ = false;
};

}  // namespace prism::replayer
