#include "graph/parallel_layout.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/check.h"

namespace prism::graph {
namespace {

std::vector<int32_t> FullAxis(int32_t size) {
  std::vector<int32_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The first members are enough to recognise a group; a group may have thousands.
std::string ShowMembers(const std::vector<Rank>& members) {
  constexpr size_t kShown = 8;
  std::string text = "{";
  for (size_t i = 0; i < std::min(members.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", members[i].value());
  }
  if (members.size() > kShown) {
    text += fmt::format(", ... {} ranks", members.size());
  }
  return text + "}";
}

}  // namespace

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

int32_t ParallelLayout::EpRankOf(Rank rank) const {
  return CoordinatesOf(rank)[static_cast<size_t>(Axis::kDp)] % sizes_.ep;
}

Result<GroupPattern> ParallelLayout::PatternOf(Rank self, const std::vector<Rank>& members) const {
  if (!std::is_sorted(members.begin(), members.end()) ||
      !std::binary_search(members.begin(), members.end(), self)) {
    return RunFailed(fmt::format("rank {} uses a group {} that it is no member of", self.value(),
                                 ShowMembers(members)));
  }
  if (members.back().value() >= static_cast<uint32_t>(world_size())) {
    return RunFailed(fmt::format("group {} of rank {} names ranks outside of the job's {}",
                                 ShowMembers(members), self.value(), world_size()));
  }
  GroupPattern pattern;
  size_t product = 1;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    std::vector<char> seen(static_cast<size_t>(size(static_cast<Axis>(axis))), 0);
    for (const Rank member : members) {
      seen[static_cast<size_t>(CoordinatesOf(member)[axis])] = 1;
    }
    std::vector<int32_t>& list = pattern.coordinates[axis];
    for (size_t coordinate = 0; coordinate < seen.size(); ++coordinate) {
      if (seen[coordinate] != 0) {
        list.push_back(static_cast<int32_t>(coordinate));
      }
    }
    product *= list.size();
    if (list.size() == 1) {
      list.clear();  // the only coordinate is the rank's own one
    }
  }
  // Members are distinct and lie inside the product, so equal counts mean equal sets.
  if (product != members.size()) {
    return RunFailed(
        fmt::format("group {} of rank {} is no product of tp, cp, dp and pp coordinates; give the "
                    "layout that the program uses (--tp, --cp, --dp, --pp)",
                    ShowMembers(members), self.value()));
  }
  return pattern;
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

PeerPattern ParallelLayout::PeerPatternOf(Rank self, Rank peer) const {
  const Coordinates from = CoordinatesOf(self);
  const Coordinates to = CoordinatesOf(peer);
  PeerPattern pattern;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    const int32_t axis_size = size(static_cast<Axis>(axis));
    pattern.offset[axis] = (to[axis] - from[axis] + axis_size) % axis_size;
  }
  return pattern;
}

Rank ParallelLayout::PeerOf(Rank self, const PeerPattern& pattern) const {
  Coordinates coordinates = CoordinatesOf(self);
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    coordinates[axis] = (coordinates[axis] + pattern.offset[axis]) % size(static_cast<Axis>(axis));
  }
  return RankAt(coordinates);
}

std::string ParallelLayout::PatternName(const GroupPattern& pattern) const {
  int listed = 0;
  int wide = 0;  // axes with more than one coordinate
  int full = 0;
  std::string spelled;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    const auto name = static_cast<Axis>(axis);
    const std::vector<int32_t>& list = pattern.coordinates[axis];
    wide += size(name) > 1 ? 1 : 0;
    if (list.empty()) {
      continue;
    }
    const bool is_full = list == FullAxis(size(name));
    ++listed;
    full += is_full ? 1 : 0;
    spelled += fmt::format("{}{}", spelled.empty() ? "" : "-", AxisName(name));
    if (!is_full) {
      spelled += fmt::format("[{}]", fmt::join(list, ","));
    }
  }
  if (listed == 0) {
    return wide == 0 ? "world" : "self";
  }
  if (full == listed && listed == wide && listed > 1) {
    return "world";
  }
  const std::vector<int32_t> ends = {0, sizes_.pp - 1};
  if (listed == 1 && full == 0 && pattern.coordinates[static_cast<size_t>(Axis::kPp)] == ends) {
    return "embedding";
  }
  return spelled;
}

}  // namespace prism::graph
