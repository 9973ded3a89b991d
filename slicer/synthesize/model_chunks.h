// The model chunks of a pipeline stage as lists of units, with the blocks of each in a JobAssembly:
// equal layers of all stages share theirs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/job_assembly.h"

namespace prism::slicer {

// A unit with the indices of its blocks, for calls.
struct UnitContent {
  UnitBlocks blocks;
  uint32_t forward = 0;  // indices into JobProgram::blocks
  uint32_t backward = 0;
  uint32_t backward_input = 0;   // zero-bubble schedules
  uint32_t backward_weight = 0;  // the same
};

struct ChunkUnit {
  UnitKind kind = UnitKind::kLayer;
  int64_t layer = 0;                     // kLayer
  const UnitContent* content = nullptr;  // of the ChunkMaker

  [[nodiscard]] std::string Marker() const;  // "layer 3"
};

struct ModelChunk {
  bool first = false;  // of the whole model
  bool last = false;
  std::vector<ChunkUnit> units;  // in forward order
};

// Whether both are the same units at the same end of the model.
bool HaveSameContent(const ModelChunk& a, const ModelChunk& b);

// What writers of units are given of a job: what they are not given (pipeline, replicas, batch,
// ZeRO) is set to one or zero.
graph::JobSpec UnitJob(const graph::JobSpec& job);

// The same of the style: pipeline, buckets and optimizer are those of TrainingStyle{}.
graph::TrainingStyle UnitStyle(const graph::TrainingStyle& style);

// Makes the chunks of all stages of a job. Units with the same content are written once.
class ChunkMaker {
 public:
  // Both outlive the maker, and it the chunks. `rank`: of the UnitJob and UnitStyle.
  ChunkMaker(const RankShape& rank, JobAssembly* assembly) : rank_(rank), assembly_(assembly) {}

  // Chunk `chunk` of stage `stage` of a job, whose ranks are `whole`.
  ModelChunk Make(const RankShape& whole, int32_t stage, int32_t chunk);

 private:
  void AddEnd(UnitPlace* place, ModelChunk* chunk);
  const UnitContent* Layer(const UnitPlace& place);

  // The unit of a kind made before, otherwise the one that `make` makes now. `place`: the relevant
  // part of its place.
  template <typename MakeBlocks>
  const UnitContent* Find(UnitKind kind, uint32_t place, MakeBlocks make);
  UnitContent Add(UnitBlocks blocks);

  const RankShape& rank_;
  JobAssembly* assembly_;
  std::map<std::pair<UnitKind, uint32_t>, UnitContent> units_;
};

}  // namespace prism::slicer
