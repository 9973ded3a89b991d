// The process groups of a profiled job as axes of its ranks, so that they can be derived for ranks
// that nobody profiled and for a larger job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/base/ids.h"

namespace prism::slicer {

// Groups of regularly placed ranks: rank r is in a group with the ranks that differ from it only in
// (rank ÷ stride) mod size, for each (stride, size) of `digits`. Most groups have one; the
// tensor-parallel ranks of several pipeline stages have two: [0-3, 8-11] of 16 are (1, 4), (8, 2).
// Size 0: all that remain, the outermost axis. Groups of any other ranks have `members` instead.
struct ProcessAxis {
  std::string name;                                   // of the group
  std::vector<std::pair<uint32_t, uint32_t>> digits;  // (stride, size), ascending
  std::vector<uint32_t> members;                      // ascending; empty: regular
  // Of the axes of these digits that a rank uses, in the order of their first use: names differ
  // between ranks, since PyTorch numbers groups.
  uint32_t ordinal = 0;

  [[nodiscard]] auto Key() const { return std::tuple(digits, members, ordinal); }
  [[nodiscard]] bool grows() const { return members.empty() && digits.back().second == 0; }
};

using AxisKey =
    std::tuple<std::vector<std::pair<uint32_t, uint32_t>>, std::vector<uint32_t>, uint32_t>;

// The axis of which `ranks` (ascending; empty: all) are one group in a job of `world` ranks; null
// if one of them is beyond the job.
std::optional<ProcessAxis> AxisOf(const std::string& name,
                                  const std::vector<uint32_t>& ranks,
                                  uint32_t world);

// The group that `rank` is in, ascending, in a job of `ranks`, of a profiled job of `world`; null
// if the axis does not divide them. Ranks outside the members of an irregular group form others of
// as many ranks, in ascending order.
std::optional<std::vector<uint32_t>> GroupOn(const ProcessAxis& axis,
                                             Rank rank,
                                             uint32_t ranks,
                                             uint32_t world);

}  // namespace prism::slicer
