#include "slicer/probe/axis_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
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
using graph::GridAxis;
using graph::OpKind;
using graph::RankGrid;

// {"tp"} for "TENSOR_MODEL_PARALLEL_GROUP" or "mesh_tp", {"dp", "cp"} for
// "DATA_PARALLEL_GROUP_WITH_CP": in the order of the table. Empty when the name does not tell.
std::vector<std::string> AxesOfName(std::string_view name) {
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
  std::vector<std::string> axes;
  for (const auto& [known, axis] : kWords) {
    if (words.contains(std::string(known)) && std::ranges::find(axes, axis) == axes.end()) {
      axes.emplace_back(axis);
    }
  }
  return axes;
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

// How much of what a rank reduces on a communicator it reduces between two matrix products, the
// second of which waits for it. Activations are reduced in the forward pass too; gradients may be
// waited for at once as well (torch 2.15's DistributedDataParallel does).
class ReducedActivations {
 public:
  ReducedActivations(const Fragment& rank, uint16_t comm_slot)
      : program_(rank.program), backward_bytes_(rank.comm_slots[comm_slot].backward_sum_bytes) {
    for (uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.kind[op] == OpKind::kCollective && program_.comm_slot[op] == comm_slot) {
        Reduce(op);
      } else if (program_.kind[op] == OpKind::kEventWait && program_.dep[op] != graph::kNoDep) {
        Wait(op);
      } else if (program_.kind[op] == OpKind::kKernel &&
                 rank.signatures[program_.signature[op]].matmul.m > 0) {
        Multiply(op);
      }
    }
  }

  // Over a third: in backward passes a product that does not need it may come in between.
  [[nodiscard]] bool AreMost() const {
    return 3 * waited_bytes_ > all_bytes_ && 10 * backward_bytes_ < 9 * all_bytes_;
  }

 private:
  void Reduce(uint32_t op) {
    const graph::CollectiveShape& shape = program_.collectives[program_.signature[op]];
    latest_ = std::nullopt;
    if (shape.kind == graph::CollectiveKind::kAllReduce) {
      all_bytes_ += shape.bytes;
      if (std::exchange(multiplied_, false)) {
        latest_ = op;
      }
    }
    is_awaited_ = false;
  }

  void Wait(uint32_t op) {
    const uint32_t record = program_.dep[op];
    is_awaited_ = is_awaited_ || (latest_.has_value() && record > *latest_ &&
                                  program_.stream[record] == program_.stream[*latest_]);
  }

  void Multiply(uint32_t op) {
    multiplied_ = true;
    if (latest_.has_value() && (is_awaited_ || program_.stream[op] == program_.stream[*latest_])) {
      waited_bytes_ += program_.collectives[program_.signature[*latest_]].bytes;
    }
    latest_ = std::nullopt;
  }

  const graph::Program& program_;
  int64_t backward_bytes_;
  int64_t all_bytes_ = 0;
  int64_t waited_bytes_ = 0;
  bool multiplied_ = false;         // since the reduction before
  std::optional<uint32_t> latest_;  // reduction after a product, before the next
  bool is_awaited_ = false;
};

// A group along an axis, as one of its ranks has it.
struct GroupOfRank {
  const Fragment* rank = nullptr;
  uint16_t comm_slot = 0;
};

std::vector<GroupOfRank> GroupsAlong(const RankGrid& grid,
                                     size_t axis,
                                     const std::vector<const Fragment*>& ranks) {
  std::vector<GroupOfRank> groups;
  for (const Fragment* rank : ranks) {
    for (size_t slot = 0; slot < rank->comm_slots.size(); ++slot) {
      if (AxisSpanned(grid, rank->rank, rank->comm_slots[slot].members) == axis) {
        groups.push_back({rank, static_cast<uint16_t>(slot)});
      }
    }
  }
  return groups;
}

// "" when no group has a name that tells.
std::string NameByGroups(const std::vector<GroupOfRank>& groups) {
  std::string of_several;
  for (const GroupOfRank& group : groups) {
    const std::vector<std::string> names = AxesOfName(group.rank->comm_slots[group.comm_slot].name);
    if (names.size() == 1) {
      return names.front();
    }
    if (of_several.empty() && !names.empty()) {
      of_several = names.front();
    }
  }
  return of_several;
}

// Ranks of a tensor-parallel group are next to each other, those of a context-parallel group a tp
// apart, stages of a pipeline farthest. "" where the user gave no such degree.
std::string NameByDegree(const std::vector<GridAxis>& axes,
                         size_t axis,
                         const graph::ParallelSizes& given) {
  int64_t stride = 1;
  for (size_t inner = 0; inner < axis; ++inner) {
    stride *= axes[inner].size;
  }
  const int64_t end = stride * axes[axis].size;
  const int64_t tp = given.tp;
  if (end <= tp) {
    return "tp";
  }
  if (stride >= tp && end <= tp * given.cp) {
    return "cp";
  }
  return stride >= given.world_size() / given.pp ? "pp" : "";
}

std::string NameByMessages(const RankGrid& grid,
                           size_t axis,
                           const std::vector<const Fragment*>& ranks,
                           const std::vector<GroupOfRank>& groups) {
  if (!IsPipeline(grid, axis, ranks)) {
    const bool reduces_activations = std::ranges::any_of(groups, [](const GroupOfRank& group) {
      return ReducedActivations(*group.rank, group.comm_slot).AreMost();
    });
    return reduces_activations ? "tp" : "dp";
  }
  const bool is_ring =
      std::ranges::all_of(ranks, [&](const Fragment* rank) { return PassesOn(grid, axis, *rank); });
  return is_ring ? "cp" : "pp";
}

}  // namespace

std::vector<GridAxis> NameAxes(std::vector<GridAxis> axes,
                               const graph::ParallelSizes& given,
                               const std::vector<const Fragment*>& ranks) {
  const RankGrid grid(axes);
  std::map<std::string, int> uses;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const std::vector<GroupOfRank> groups = GroupsAlong(grid, axis, ranks);
    std::string name = NameByGroups(groups);
    if (name.empty() && !groups.empty()) {
      name = NameByDegree(axes, axis, given);
    }
    if (name.empty()) {
      name = NameByMessages(grid, axis, ranks, groups);
    }
    const int use = ++uses[name];
    axes[axis].name = use == 1 ? name : fmt::format("{}_{}", name, use);
  }
  return axes;
}

}  // namespace prism::slicer
