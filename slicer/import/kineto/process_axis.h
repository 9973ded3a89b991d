// The process groups of a profiled job as axes of its ranks, so that they can be derived for ranks
// that nobody profiled and for a larger job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "graph/base/ids.h"

namespace prism::slicer {

// Groups of `size` ranks that are `stride` apart: rank r is in a group with the ranks that differ
// from it only in (rank ÷ stride) mod size. size 0: all that remain, the outermost axis.
struct ProcessAxis {
  std::string name;  // of the group
  uint32_t stride = 1;
  uint32_t size = 0;
  // Of the axes of this stride and size that a rank uses, in the order of their first use: names
  // differ between ranks, since PyTorch numbers groups.
  uint32_t ordinal = 0;

  [[nodiscard]] auto Key() const { return std::tuple(stride, size, ordinal); }
};

using AxisKey = std::tuple<uint32_t, uint32_t, uint32_t>;

// The axis of which `ranks` (ascending; empty: all) are one group in a job of `world` ranks; null
// if they are not regularly spaced.
std::optional<ProcessAxis> AxisOf(const std::string& name,
                                  const std::vector<uint32_t>& ranks,
                                  uint32_t world);

// The lowest rank of the group that `rank` is in; null if the axis does not divide `ranks`.
std::optional<uint32_t> LeaderOn(const ProcessAxis& axis, Rank rank, uint32_t ranks);

// The group that `rank` is in, ascending, in a job of `ranks`; null if the axis does not divide
// them.
std::optional<std::vector<uint32_t>> GroupOn(const ProcessAxis& axis, Rank rank, uint32_t ranks);

}  // namespace prism::slicer
