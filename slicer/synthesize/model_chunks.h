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
  int64_t layer = 0;                     // kLayer
  const UnitContent* content = nullptr;  // of a UnitCache

  [[nodiscard]] std::string Marker() const;  // "layer 3"
};

struct ModelChunk {
  bool first = false;  // of the whole model
  bool last = false;
  std::vector<ChunkUnit> units;  // in forward order
};

// Whether both are the same units at the same end of the model.
bool HaveSameContent(const ModelChunk& a, const ModelChunk& b);

// Units of all jobs of a synthesizer, by what decides their content.
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

  static constexpr uint32_t kPlaces = 16;

  // The unit of a kind and shape made before, otherwise the one that `make` makes now. `place`: the
  // relevant part of its place, a number below kPlaces.
  template <typename Make>
  const UnitContent* Find(UnitKind kind, uint32_t shape, uint32_t place, Make make) {
    const size_t index = (size_t{shape} * kUnitKinds + static_cast<size_t>(kind)) * kPlaces + place;
    if (index >= units_.size()) {
      units_.resize((size_t{shape} + 1) * kUnitKinds * kPlaces);
    }
    ++asked_;
    if (units_[index] == nullptr) {
      units_[index] = std::make_unique<const UnitContent>(make());
    } else {
      ++found_;
    }
    return units_[index].get();
  }

  [[nodiscard]] int64_t asked() const { return asked_; }
  [[nodiscard]] int64_t found() const { return found_; }

 private:
  // The sizes in which jobs of one search differ.
  using Sizes = std::array<int64_t, 8>;

  std::vector<graph::JobSpec> jobs_;  // distinct, without those sizes
  std::vector<graph::TrainingStyle> styles_;
  std::map<std::tuple<uint32_t, uint32_t, Sizes>, uint32_t> shapes_;
  std::vector<std::unique_ptr<const UnitContent>> units_;  // by shape, kind and place
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
  const UnitContent* Layer(const UnitPlace& place);
  UnitContent Add(UnitBlocks blocks);

  const RankShape& rank_;
  uint32_t shape_;
  JobAssembly* assembly_;
  UnitCache* cache_;
};

}  // namespace prism::slicer
