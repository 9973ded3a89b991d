// The model chunks of a pipeline stage as lists of units, with the blocks of each in a JobAssembly:
// equal layers of all stages share theirs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/job_assembly.h"

namespace prism::slicer {

// A unit with its blocks as they are called.
struct UnitContent {
  UnitBlocks blocks;
  uint32_t forward = 0;  // indices into JobProgram::blocks
  uint32_t backward = 0;
  uint32_t backward_input = 0;   // zero-bubble schedules
  uint32_t backward_weight = 0;  // likewise
};

struct ChunkUnit {
  UnitKind kind = UnitKind::kLayer;
  std::string marker;  // "layer 3"
  std::shared_ptr<const UnitContent> content;
};

struct ModelChunk {
  bool first = false;  // of the whole model
  bool last = false;
  std::vector<ChunkUnit> units;  // in forward order
};

class ChunkMaker {
 public:
  // All outlive the maker.
  ChunkMaker(const RankShape& rank, JobAssembly* assembly) : rank_(rank), assembly_(assembly) {}

  // Chunk `chunk` of stage `stage`.
  ModelChunk Make(int32_t stage, int32_t chunk);

 private:
  // What tells the layers of a model apart: kind of feed-forward, place in a period of two, whether
  // the gradient comes from another stage.
  using LayerKey = std::tuple<bool, bool, bool>;

  void AddEnd(UnitPlace* place, ModelChunk* chunk);
  std::shared_ptr<const UnitContent> Layer(const UnitPlace& place);
  std::shared_ptr<const UnitContent> Add(UnitBlocks blocks);

  const RankShape& rank_;
  JobAssembly* assembly_;
  std::map<LayerKey, std::shared_ptr<const UnitContent>> layers_;
};

}  // namespace prism::slicer
