#include "graph/parallel_layout.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/check.h"

namespace prism::graph {
const char* AxisName(Axis axis) {
  switch (axis) {
    case Axis::kTp:
      return "tp";
    case Axis::kCp:
      return "cp";
    case Axis::kDp:
      return "dp";
    case Axis::kPp:
      return "pp";
  }
  return "?";
}

ParallelLayout::ParallelLayout(const ParallelSizes& sizes) : sizes_(sizes) {
  PRISM_CHECK(sizes.tp > 0 && sizes.cp > 0 && sizes.dp > 0 && sizes.pp > 0);
  PRISM_CHECK(sizes.ep > 0 && sizes.vpp > 0);
}

int32_t ParallelLayout::world_size() const {
  return static_cast<int32_t>(sizes_.world_size());
}

int32_t ParallelLayout::size(Axis axis) const {
  const Coordinates all = {sizes_.tp, sizes_.cp, sizes_.dp, sizes_.pp};
  return all[static_cast<size_t>(axis)];
}

Coordinates ParallelLayout::CoordinatesOf(Rank rank) const {
  PRISM_CHECK_LT(rank.value(), static_cast<uint32_t>(world_size()));
  Coordinates coordinates{};
  auto rest = static_cast<int32_t>(rank.value());
  for (int axis = 0; axis < kAxisCount; ++axis) {
    const int32_t axis_size = size(static_cast<Axis>(axis));
    coordinates[static_cast<size_t>(axis)] = rest % axis_size;
    rest /= axis_size;
  }
  return coordinates;
}

Rank ParallelLayout::RankAt(const Coordinates& coordinates) const {
  int32_t rank = 0;
  for (int axis = kAxisCount - 1; axis >= 0; --axis) {
    const int32_t coordinate = coordinates[static_cast<size_t>(axis)];
    const int32_t axis_size = size(static_cast<Axis>(axis));
    PRISM_CHECK(coordinate >= 0 && coordinate < axis_size);
    rank = rank * axis_size + coordinate;
  }
  return Rank(static_cast<uint32_t>(rank));
}

std::vector<Rank> ParallelLayout::MembersOf(Rank self, const GroupPattern& pattern) const {
  const Coordinates own = CoordinatesOf(self);
  std::array<std::vector<int32_t>, kAxisCount> lists;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    lists[axis] = pattern.coordinates[axis].empty() ? std::vector<int32_t>{own[axis]}
                                                    : pattern.coordinates[axis];
  }
  // The slowest axis in the outer place gives ascending ranks.
  std::vector<Rank> members = {Rank(0)};
  for (size_t step = 0; step < kAxisCount; ++step) {
    const size_t axis = kAxisCount - 1 - step;
    const auto axis_size = static_cast<uint32_t>(size(static_cast<Axis>(axis)));
    std::vector<Rank> next;
    next.reserve(members.size() * lists[axis].size());
    for (const Rank prefix : members) {
      for (const int32_t coordinate : lists[axis]) {
        next.push_back(Rank(prefix.value() * axis_size + static_cast<uint32_t>(coordinate)));
      }
    }
    members = std::move(next);
  }
  return members;
}

}  // namespace prism::graph
