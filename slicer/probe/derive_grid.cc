#include "slicer/probe/derive_grid.h"

#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "slicer/probe/axis_names.h"

namespace prism::slicer {
namespace {

using graph::Fragment;
using graph::FragmentCommunicator;
using graph::GridAxis;

struct Level {
  uint32_t stride = 1;
  uint32_t count = 1;
};

// The set as progressions of progressions, fastest first; empty if it is not of this form.
std::vector<Level> LevelsOf(std::vector<uint32_t> members) {
  std::vector<Level> levels;
  while (members.size() > 1) {
    const uint32_t stride = members[1] - members[0];
    size_t count = 1;
    while (count < members.size() && members[count] - members[count - 1] == stride) {
      ++count;
    }
    if (members.size() % count != 0) {
      return {};
    }
    std::vector<uint32_t> starts;
    for (size_t i = 0; i < members.size(); ++i) {
      if (i % count == 0) {
        starts.push_back(members[i]);
      } else if (members[i] - members[i - 1] != stride) {
        return {};
      }
    }
    levels.push_back({stride, static_cast<uint32_t>(count)});
    members = std::move(starts);
  }
  return levels;
}

// Borders, with the group that needs each.
using Borders = std::map<uint32_t, std::string>;

void AddBorders(const FragmentCommunicator& group, uint32_t world, Borders* borders) {
  std::vector<uint32_t> members;
  for (const Rank member : group.members) {
    members.push_back(member.value());
  }
  const std::vector<Level> levels = LevelsOf(members);
  for (const Level& level : levels) {
    const uint64_t end = uint64_t{level.stride} * level.count;
    const bool fits = end <= world && world % end == 0 && world % level.stride == 0 &&
                      members.front() / level.stride % level.count == 0;
    if (!fits) {
      return;
    }
  }
  for (const Level& level : levels) {
    borders->emplace(level.stride, group.name);
    borders->emplace(level.stride * level.count, group.name);
  }
}

// A process group of the framework, by name and number.
using ProcessGroup = std::pair<std::string, uint32_t>;

ProcessGroup ProcessGroupOf(const FragmentCommunicator& group) {
  return {group.name, group.group_number};
}

// Process groups whose ranks send to each other one by one, for which torch makes a communicator of
// each pair: some rank is in two of them. Where a pair begins says nothing about the grid.
std::set<ProcessGroup> GroupsOfPairs(const std::vector<const Fragment*>& ranks) {
  std::set<ProcessGroup> of_pairs;
  for (const Fragment* fragment : ranks) {
    std::set<ProcessGroup> seen;
    for (const FragmentCommunicator& group : fragment->comm_slots) {
      if (group.members.size() == 2 && !seen.insert(ProcessGroupOf(group)).second) {
        of_pairs.insert(ProcessGroupOf(group));
      }
    }
  }
  return of_pairs;
}

}  // namespace

Result<std::vector<GridAxis>> DeriveGrid(const graph::ParallelSizes& given,
                                         const std::vector<const Fragment*>& ranks) {
  const auto world = static_cast<uint32_t>(given.world_size());
  Borders borders = {{1, "a rank"}, {world, "all ranks"}};
  const auto tp = static_cast<uint32_t>(given.tp);
  borders.emplace(tp, "--tp");
  borders.emplace(tp * static_cast<uint32_t>(given.cp), "--cp");
  borders.emplace(world / static_cast<uint32_t>(given.pp), "--pp");
  const std::set<ProcessGroup> of_pairs = GroupsOfPairs(ranks);
  for (const Fragment* fragment : ranks) {
    for (const FragmentCommunicator& group : fragment->comm_slots) {
      if (group.members.size() != 2 || !of_pairs.contains(ProcessGroupOf(group))) {
        AddBorders(group, world, &borders);
      }
    }
  }
  std::vector<GridAxis> axes;
  for (auto border = borders.begin(), next = std::next(border); next != borders.end();
       ++border, ++next) {
    if (next->first % border->first != 0) {
      return RunFailed(fmt::format(
          "the program's groups do not form a grid of ranks: {} ends at {} ranks, {} at {}; one of "
          "the two groups is wrong, or the job is not a grid of parallel axes",
          border->second, border->first, next->second, next->first));
    }
    axes.push_back({"", static_cast<int32_t>(next->first / border->first)});
  }
  return NameAxes(std::move(axes), given, ranks);
}

graph::ParallelSizes SizesOf(const std::vector<GridAxis>& axes) {
  graph::ParallelSizes sizes;
  for (const GridAxis& axis : axes) {
    if (axis.name == "tp") {
      sizes.tp = axis.size;
    } else if (axis.name == "cp") {
      sizes.cp = axis.size;
    } else if (axis.name == "pp") {
      sizes.pp = axis.size;
    } else {
      sizes.dp *= axis.size;
      sizes.ep *= axis.name == "ep" ? axis.size : 1;
    }
  }
  return sizes;
}

}  // namespace prism::slicer
