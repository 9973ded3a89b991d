// Rank ↔ coordinates, in Megatron's order: tp fastest, then cp, dp, pp; ep inside dp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/job.h"

namespace prism::graph {

enum class Axis : uint8_t { kTp, kCp, kDp, kPp };

inline constexpr int kAxisCount = 4;

const char* AxisName(Axis axis);  // "tp", "cp", "dp", "pp"

using Coordinates = std::array<int32_t, kAxisCount>;  // indexed by Axis

// A family of groups: along each axis either the rank's own coordinate, or a fixed list of
// coordinates that every member takes. The tensor-parallel groups are {tp: 0..tp-1}, the embedding
// groups {pp: 0, pp-1}, the world is all four lists. An empty list means "own coordinate".
struct GroupPattern {
  std::array<std::vector<int32_t>, kAxisCount> coordinates;

  bool operator==(const GroupPattern&) const = default;
};

class ParallelLayout {
 public:
  explicit ParallelLayout(const ParallelSizes& sizes);

  [[nodiscard]] const ParallelSizes& sizes() const { return sizes_; }
  [[nodiscard]] int32_t world_size() const;
  [[nodiscard]] int32_t size(Axis axis) const;
  [[nodiscard]] Coordinates CoordinatesOf(Rank rank) const;
  [[nodiscard]] Rank RankAt(const Coordinates& coordinates) const;

  // Members, ascending, of the group of that pattern that `self` belongs to.
  [[nodiscard]] std::vector<Rank> MembersOf(Rank self, const GroupPattern& pattern) const;

 private:
  ParallelSizes sizes_;
};

}  // namespace prism::graph
