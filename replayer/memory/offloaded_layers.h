// Layers whose saved tensors are in host memory between their passes.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/job/offload.h"
#include "replayer/memory/chunk_passes.h"
#include "replayer/memory/stage_units.h"
#include "replayer/memory/tensor_blocks.h"

namespace prism::replayer {

// Saved tensors of layers, all equal to `layer`, that are in host memory from their forward to
// their backward pass, in pass order. One layer at a time is being copied out.
class OffloadedLayers {
 public:
  OffloadedLayers(const StageUnits& units,
                  UnitTensors layer,
                  const std::vector<ChunkPass>& passes,
                  int64_t prefetch,
                  MemoryAccount* account);

  // Restarts the passes; nothing of the previous iteration is left.
  void BeginIteration() { touch_ = 0; }

  // After a forward pass: `saved` leaves the device.
  void Leave(MemoryBlocks saved);

  // Before a backward pass, and after it.
  void Begin();
  void End();

  [[nodiscard]] int64_t host_bytes() const { return most_on_host_ * layer_.saved_bytes(); }

 private:
  void ReadPasses(const StageUnits& units, const std::vector<ChunkPass>& passes);

  UnitTensors layer_;
  MemoryAccount* account_;
  std::vector<graph::PieceTouch> touches_;
  std::vector<std::vector<uint32_t>> fetches_;
  std::vector<MemoryBlocks> fetched_;  // by piece
  MemoryBlocks leaving_;
  uint32_t leaving_piece_ = 0;
  size_t touch_ = 0;  // the next
  int64_t on_host_ = 0;
  int64_t most_on_host_ = 0;
};

}  // namespace prism::replayer
