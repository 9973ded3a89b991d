// Ranks as points of a grid, and groups of them as products of coordinates: how the groups and
// peers of one recorded rank determine those of every other rank.
//
// The axes of the built-in workload are those of its layout; those of a user's program are derived
// from its groups (slicer/probe/derive_grid.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/job/job.h"

namespace prism::graph {

// A family of groups: along each axis either the rank's own coordinate, or a fixed list of
// coordinates that every member takes. On a grid of tp and pp the tensor-parallel groups are
// {tp: 0..tp-1}, the embedding groups {pp: 0, pp-1}, the world is both lists. An empty list means
// "own coordinate".
struct GridGroup {
  std::vector<std::vector<int32_t>> coordinates;  // by axis

  bool operator==(const GridGroup&) const = default;
};

// A peer of a rank. Per axis either its distance from the rank, modulo the size of the axis (the
// next stage of a pipeline), or its absolute coordinate, whatever the rank's own is (expert 5, to
// which every rank of a group sends its part 5).
struct GridPeer {
  struct Step {
    bool is_place = false;
    int32_t value = 0;

    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;  // by axis

  bool operator==(const GridPeer&) const = default;
};

// A rank's coordinates by the names of the axes. Every axis that is not tp, cp or pp is data
// parallel; ep is the part of it that experts are spread over.
struct ParallelRank {
  int32_t tp = 0;
  int32_t cp = 0;
  int32_t dp = 0;
  int32_t pp = 0;
  int32_t ep = 0;
};

class RankGrid {
 public:
  // The fastest axis first; sizes at least 1.
  explicit RankGrid(std::vector<GridAxis> axes);

  // The grid of a job: the one its program showed, else Megatron's order (tp fastest, then cp, dp
  // and pp, with dp split in two where experts are spread over a part of it).
  static RankGrid Of(const JobSpec& job);

  [[nodiscard]] const std::vector<GridAxis>& axes() const { return axes_; }
  [[nodiscard]] uint32_t world_size() const { return strides_.back(); }
  [[nodiscard]] int32_t Coordinate(Rank rank, size_t axis) const;
  [[nodiscard]] ParallelRank ParallelRankOf(Rank rank) const;
  // The lowest rank of a pipeline stage; rank 0 in a grid without stages.
  [[nodiscard]] Rank LowestOfStage(int32_t stage) const;
  // The rank with that coordinate on the axis and all others unchanged.
  [[nodiscard]] Rank Moved(Rank rank, size_t axis, int32_t coordinate) const;

  // The family that `members` (ascending global ranks) belongs to as seen from `self`, one of them.
  // Fails, naming the group, when the set is not a product of coordinate lists.
  [[nodiscard]] Result<GridGroup> GroupOf(Rank self, const std::vector<Rank>& members) const;

  // Members, ascending, of the group of that family that `self` belongs to.
  [[nodiscard]] std::vector<Rank> MembersOf(Rank self, const GridGroup& group) const;

  // The peer by its distance along every axis.
  [[nodiscard]] GridPeer PeerOf(Rank self, Rank peer) const;
  // The peer by its coordinate along the axes that the group lists; both ranks are members.
  [[nodiscard]] GridPeer PlaceOf(Rank peer, const GridGroup& group) const;
  [[nodiscard]] Rank RankOf(Rank self, const GridPeer& peer) const;

  // "tp", "dp", "pp", "tp-pp", "embedding", "world" or a spelled-out family: for reports.
  [[nodiscard]] std::string Name(const GridGroup& group) const;

  // "tp 8 × dp 64 × pp 16".
  [[nodiscard]] std::string ToText() const;

 private:
  std::vector<GridAxis> axes_;
  std::vector<uint32_t> strides_;  // by axis, then the number of ranks
};

}  // namespace prism::graph
