// The model chunks of a pipeline stage as lists of units, with the blocks of each in a JobAssembly:
// equal layers of all stages share theirs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "graph/base/intern.h"
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
  int64_t layer = 0;  // kLayer
  std::shared_ptr<const UnitContent> content;

  [[nodiscard]] std::string Marker() const;  // "layer 3"
};

struct ModelChunk {
  bool first = false;  // of the whole model
  bool last = false;
  std::vector<ChunkUnit> units;  // in forward order
};

// Whether both are the same units at the same end of the model.
bool HaveSameContent(const ModelChunk& a, const ModelChunk& b);

// Units of all jobs of a synthesizer, keyed by what decides their content.
class UnitCache {
 public:
  // Its shape: everything that writers of units are given of the job. What they are not given
  // (pipeline, replicas, batch, ZeRO) is set to one or zero.
  static graph::JobSpec UnitJob(const graph::JobSpec& job);

  // The same for the style: pipeline, buckets and optimizer are those of TrainingStyle{}.
  static graph::TrainingStyle UnitStyle(const graph::TrainingStyle& style);

  // A number for a shape, and one for a style.
  uint32_t ShapeOf(const graph::JobSpec& job, const graph::TrainingStyle& style);
  uint32_t StyleOf(const graph::TrainingStyle& style) { return InternValue(styles_, style); }

  // Kind, shape and the relevant part of the place.
  using Key = std::tuple<UnitKind, uint32_t, uint32_t>;

  // The unit made for `key` before, otherwise the one that `make` makes now.
  template <typename Make>
  std::shared_ptr<const UnitContent> Find(const Key& key, Make make) {
    std::shared_ptr<const UnitContent>& unit = units_[key];
    ++asked_;
    if (unit == nullptr) {
      unit = make();
    } else {
      ++found_;
    }
    return unit;
  }

  [[nodiscard]] int64_t asked() const { return asked_; }
  [[nodiscard]] int64_t found() const { return found_; }

 private:
  // The sizes in which jobs of one search differ.
  using Sizes = std::array<int64_t, 8>;

  std::vector<graph::JobSpec> jobs_;  // distinct, without those sizes
  std::vector<graph::TrainingStyle> styles_;
  std::map<std::tuple<uint32_t, uint32_t, Sizes>, uint32_t> shapes_;
  std::map<Key, std::shared_ptr<const UnitContent>> units_;
  int64_t asked_ = 0;
  int64_t found_ = 0;
};

class ChunkMaker {
 public:
  // All outlive the maker. `rank`: of a UnitJob and UnitStyle, of that shape.
  ChunkMaker(const RankShape& rank, uint32_t shape, JobAssembly* assembly, UnitCache* cache)
      : rank_(rank), shape_(shape), assembly_(assembly), cache_(cache) {}

  // Chunk `chunk` of stage `stage` of a job, whose ranks are `whole`.
  ModelChunk Make(const RankShape& whole, int32_t stage, int32_t chunk);

 private:
  void AddEnd(UnitPlace* place, ModelChunk* chunk);
  std::shared_ptr<const UnitContent> Layer(const UnitPlace& place);
  std::shared_ptr<const UnitContent> Add(UnitBlocks blocks);

  const RankShape& rank_;
  uint32_t shape_;
  JobAssembly* assembly_;
  UnitCache* cache_;
};

}  // namespace prism::slicer
