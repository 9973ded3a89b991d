#include "graph/job/rank_grid.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/check.h"

namespace prism::graph {
namespace {

bool IsFull(const std::vector<int32_t>& list, int32_t size) {
  return list.size() == static_cast<size_t>(size);
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

RankGrid::RankGrid(std::vector<GridAxis> axes) : axes_(std::move(axes)), strides_({1}) {
  for (const GridAxis& axis : axes_) {
    PRISM_CHECK(axis.size > 0);
    strides_.push_back(strides_.back() * static_cast<uint32_t>(axis.size));
  }
}

RankGrid RankGrid::Of(const JobSpec& job) {
  if (!job.facts.axes.empty()) {
    return RankGrid(job.facts.axes);
  }
  const ParallelSizes& sizes = job.parallel;
  std::vector<GridAxis> axes = {{"tp", sizes.tp}, {"cp", sizes.cp}};
  if (sizes.ep > 1 && sizes.dp % sizes.ep == 0) {
    axes.push_back({"ep", sizes.ep});
    axes.push_back({"dp", sizes.dp / sizes.ep});
  } else {
    axes.push_back({"dp", sizes.dp});
  }
  axes.push_back({"pp", sizes.pp});
  return RankGrid(std::move(axes));
}

int32_t RankGrid::Coordinate(Rank rank, size_t axis) const {
  return static_cast<int32_t>(rank.value() / strides_[axis] %
                              static_cast<uint32_t>(axes_[axis].size));
}

ParallelRank RankGrid::ParallelRankOf(Rank rank) const {
  ParallelRank at;
  int32_t dp_stride = 1;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const std::string& name = axes_[axis].name;
    const int32_t coordinate = Coordinate(rank, axis);
    if (name == "tp") {
      at.tp = coordinate;
    } else if (name == "cp") {
      at.cp = coordinate;
    } else if (name == "pp") {
      at.pp = coordinate;
    } else {
      at.dp += coordinate * dp_stride;
      dp_stride *= axes_[axis].size;
      at.ep = name == "ep" ? coordinate : at.ep;
    }
  }
  return at;
}

Rank RankGrid::LowestOfStage(int32_t stage) const {
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axes_[axis].name == "pp") {
      return Moved(Rank(0), axis, stage);
    }
  }
  return Rank(0);
}

Rank RankGrid::Moved(Rank rank, size_t axis, int32_t coordinate) const {
  const auto own = static_cast<uint32_t>(Coordinate(rank, axis));
  return Rank(rank.value() - own * strides_[axis] +
              static_cast<uint32_t>(coordinate) * strides_[axis]);
}

Result<GridGroup> RankGrid::GroupOf(Rank self, const std::vector<Rank>& members) const {
  if (!std::ranges::is_sorted(members) || !std::ranges::binary_search(members, self)) {
    return RunFailed(fmt::format("rank {} uses group {}, but is not a member of it", self.value(),
                                 ShowMembers(members)));
  }
  if (members.back().value() >= world_size()) {
    return RunFailed(fmt::format("group {} of rank {} has ranks beyond the job's {}",
                                 ShowMembers(members), self.value(), world_size()));
  }
  GridGroup group;
  size_t product = 1;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    std::vector<char> seen(static_cast<size_t>(axes_[axis].size), 0);
    for (const Rank member : members) {
      seen[static_cast<size_t>(Coordinate(member, axis))] = 1;
    }
    std::vector<int32_t>& list = group.coordinates.emplace_back();
    for (size_t coordinate = 0; coordinate < seen.size(); ++coordinate) {
      if (seen[coordinate] != 0) {
        list.push_back(static_cast<int32_t>(coordinate));
      }
    }
    product *= list.size();
    if (list.size() == 1) {
      list.clear();  // the only coordinate is the rank's own
    }
  }
  // Members are distinct and inside the product, so equal counts mean equal sets.
  if (product != members.size()) {
    return RunFailed(
        fmt::format("group {} of rank {} does not fit the layout {}; give the layout that the "
                    "program uses (--tp, --pp)",
                    ShowMembers(members), self.value(), ToText()));
  }
  return group;
}

std::vector<Rank> RankGrid::MembersOf(Rank self, const GridGroup& group) const {
  // With the slowest axis outermost, ranks come out ascending.
  std::vector<Rank> members = {Rank(0)};
  for (size_t step = 0; step < axes_.size(); ++step) {
    const size_t axis = axes_.size() - 1 - step;
    std::vector<int32_t> list = group.coordinates[axis];
    if (list.empty()) {
      list.push_back(Coordinate(self, axis));
    }
    std::vector<Rank> next;
    next.reserve(members.size() * list.size());
    for (const Rank prefix : members) {
      for (const int32_t coordinate : list) {
        next.push_back(Rank(prefix.value() + static_cast<uint32_t>(coordinate) * strides_[axis]));
      }
    }
    members = std::move(next);
  }
  return members;
}

GridPeer RankGrid::PeerOf(Rank self, Rank peer) const {
  GridPeer seen;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const int32_t size = axes_[axis].size;
    seen.steps.push_back({false, (Coordinate(peer, axis) - Coordinate(self, axis) + size) % size});
  }
  return seen;
}

GridPeer RankGrid::PlaceOf(Rank peer, const GridGroup& group) const {
  GridPeer seen;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const bool is_listed = !group.coordinates[axis].empty();
    seen.steps.push_back({is_listed, is_listed ? Coordinate(peer, axis) : 0});
  }
  return seen;
}

Rank RankGrid::RankOf(Rank self, const GridPeer& peer) const {
  Rank rank = self;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const auto& [is_place, value] = peer.steps[axis];
    const int32_t from = is_place ? 0 : Coordinate(self, axis);
    rank = Moved(rank, axis, (from + value) % axes_[axis].size);
  }
  return rank;
}

std::string RankGrid::Name(const GridGroup& group) const {
  int listed = 0;
  int wide = 0;  // axes with more than one coordinate
  int full = 0;
  bool is_ends_of_pipeline = false;
  std::string spelled;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    const auto& [name, size] = axes_[axis];
    const std::vector<int32_t>& list = group.coordinates[axis];
    wide += size > 1 ? 1 : 0;
    if (list.empty()) {
      continue;
    }
    const bool is_full = IsFull(list, size);
    ++listed;
    full += is_full ? 1 : 0;
    is_ends_of_pipeline = name == "pp" && list == std::vector<int32_t>{0, size - 1};
    spelled += fmt::format("{}{}", spelled.empty() ? "" : "-", name);
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
  return listed == 1 && full == 0 && is_ends_of_pipeline ? "embedding" : spelled;
}

std::string RankGrid::ToText() const {
  std::string text;
  for (const GridAxis& axis : axes_) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " × ", axis.name, axis.size);
  }
  return text.empty() ? "one rank" : text;
}

}  // namespace prism::graph
