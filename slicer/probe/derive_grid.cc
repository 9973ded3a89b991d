#include "slicer/probe/derive_grid.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/job/rank_grid.h"

namespace prism::slicer {
namespace {

using graph::Fragment;
using graph::FragmentCommunicator;
using graph::GridAxis;
using graph::RankGrid;

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

// "tp" for "TENSOR_MODEL_PARALLEL_GROUP" or "mesh_tp"; "" when the name does not tell. The first
// word of the table decides: "DATA_PARALLEL_GROUP_WITH_CP" is dp.
std::string AxisOfName(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kWords = {
      {{"tensor", "tp"},
       {"tp", "tp"},
       {"pipeline", "pp"},
       {"pp", "pp"},
       {"data", "dp"},
       {"dp", "dp"},
       {"fsdp", "dp"},
       {"shard", "dp"},
       {"zero", "dp"},
       {"replicate", "dp"},
       {"context", "cp"},
       {"cp", "cp"},
       {"sequence", "cp"},
       {"sp", "cp"},
       {"expert", "ep"},
       {"ep", "ep"}}};
  std::set<std::string> words;
  std::string word;
  for (const char c : std::string(name) + ".") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      words.insert(std::exchange(word, {}));
    }
  }
  for (const auto& [known, axis] : kWords) {
    if (words.contains(std::string(known))) {
      return std::string(axis);
    }
  }
  return "";
}

// The one axis that the group spans completely; null if it spans none or several.
std::optional<size_t> AxisSpanned(const RankGrid& grid, Rank self, const std::vector<Rank>& group) {
  const Result<graph::GridGroup> family = grid.GroupOf(self, group);
  std::optional<size_t> spanned;
  if (!family.ok()) {
    return spanned;
  }
  for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
    const size_t listed = family->coordinates[axis].size();
    if (listed == 0) {
      continue;
    }
    if (spanned || listed != static_cast<size_t>(grid.axes()[axis].size)) {
      return std::nullopt;
    }
    spanned = axis;
  }
  return spanned;
}

// Stages of a pipeline send to their neighbours (the first and the last to each other where there
// are several chunks); an all-to-all, for which NCCL has no call, sends to everybody.
bool IsPipeline(const RankGrid& grid, size_t axis, const std::vector<const Fragment*>& ranks) {
  const int32_t size = grid.axes()[axis].size;
  bool has_peers = false;
  for (const Fragment* fragment : ranks) {
    for (const Rank peer : fragment->peer_slots) {
      const int32_t other = grid.Coordinate(peer, axis);
      if (peer == fragment->rank || grid.Moved(fragment->rank, axis, other) != peer) {
        continue;
      }
      const int32_t distance = std::abs(other - grid.Coordinate(fragment->rank, axis));
      if (distance != 1 && distance != size - 1) {
        return false;
      }
      has_peers = true;
    }
  }
  return has_peers;
}

// Every rank passes on to the next as much as it receives from the previous one, the last to the
// first: parts of a sequence in ring attention. The first stage of a pipeline receives less than it
// sends; and with two stages, each of which is before and after the other, one first only sends or
// only receives.
bool PassesOn(const RankGrid& grid, size_t axis, const Fragment& rank) {
  const int32_t size = grid.axes()[axis].size;
  const int32_t own = grid.Coordinate(rank.rank, axis);
  const Rank next = grid.Moved(rank.rank, axis, (own + 1) % size);
  const Rank before = grid.Moved(rank.rank, axis, (own + size - 1) % size);
  std::vector<int64_t> sent;
  std::vector<int64_t> taken;
  for (uint32_t op = 0; op < rank.program.size(); ++op) {
    if (rank.program.kind[op] != graph::OpKind::kPeerGroup) {
      continue;
    }
    for (const auto& transfer : rank.program.peer_groups[rank.program.signature[op]].transfers) {
      const Rank peer = rank.peer_slots[transfer.peer_slot];
      if (transfer.is_send && peer == next) {
        sent.push_back(transfer.bytes);
      } else if (!transfer.is_send && peer == before) {
        taken.push_back(transfer.bytes);
      }
    }
    if (size == 2 && sent.size() != taken.size()) {
      return false;
    }
  }
  return !sent.empty() && sent == taken;
}

std::string NameOfAxis(const RankGrid& grid,
                       size_t axis,
                       const std::vector<const Fragment*>& ranks) {
  for (const Fragment* fragment : ranks) {
    for (const FragmentCommunicator& group : fragment->comm_slots) {
      const std::string name = AxisOfName(group.name);
      if (!name.empty() && AxisSpanned(grid, fragment->rank, group.members) == axis) {
        return name;
      }
    }
  }
  if (!IsPipeline(grid, axis, ranks)) {
    return "dp";
  }
  const bool is_ring =
      std::ranges::all_of(ranks, [&](const Fragment* rank) { return PassesOn(grid, axis, *rank); });
  return is_ring ? "cp" : "pp";
}

std::vector<GridAxis> Named(std::vector<GridAxis> axes, const std::vector<const Fragment*>& ranks) {
  const RankGrid grid(axes);
  std::map<std::string, int> uses;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const std::string name = NameOfAxis(grid, axis, ranks);
    const int use = ++uses[name];
    axes[axis].name = use == 1 ? name : fmt::format("{}_{}", name, use);
  }
  return axes;
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
  return Named(std::move(axes), ranks);
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
