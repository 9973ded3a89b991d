#include "slicer/stitch/rank_tables.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

using graph::GridGroup;
using graph::RankGrid;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// All communicators of one pattern and name. They are disjoint, so the lowest member names one.
struct Family {
  CommunicatorPattern pattern;
  std::vector<uint32_t> comm_by_lowest;  // by rank
};

// Communicators of the whole job, created as ranks ask for them.
class Communicators {
 public:
  Communicators(const RankGrid& grid, TableMerger& merger, graph::CommunicatorTable& table)
      : grid_(grid), merger_(merger), table_(table) {}

  // Index of the family, for CommunicatorOf.
  size_t FamilyOf(const CommunicatorPattern& pattern) {
    const auto found = std::ranges::find(families_, pattern, &Family::pattern);
    if (found != families_.end()) {
      return static_cast<size_t>(found - families_.begin());
    }
    families_.push_back({pattern, std::vector<uint32_t>(grid_.world_size(), kNone)});
    return families_.size() - 1;
  }

  // The communicator of that family that contains the rank; kNone if none does.
  uint32_t CommunicatorOf(Rank rank, size_t family_index) {
    Family& family = families_[family_index];
    Rank lowest = rank;
    for (size_t axis = 0; axis < grid_.axes().size(); ++axis) {
      const std::vector<int32_t>& list = family.pattern.group.coordinates[axis];
      if (list.empty()) {
        continue;
      }
      if (!std::ranges::binary_search(list, grid_.Coordinate(rank, axis))) {
        return kNone;
      }
      lowest = grid_.Moved(lowest, axis, list.front());
    }
    uint32_t& comm = family.comm_by_lowest[lowest.value()];
    if (comm == kNone) {
      comm = Create(rank, family.pattern);
    }
    return comm;
  }

 private:
  uint32_t Create(Rank rank, const CommunicatorPattern& pattern) {
    for (const Rank member : grid_.MembersOf(rank, pattern.group)) {
      table_.members.push_back(member.value());
    }
    table_.begin.push_back(static_cast<uint32_t>(table_.members.size()));
    table_.name.push_back(merger_.InternString(pattern.name));
    return table_.size() - 1;
  }

  const RankGrid& grid_;
  TableMerger& merger_;
  graph::CommunicatorTable& table_;
  std::vector<Family> families_;
};

// The peers that a rank sends to or receives from on a communicator, in the order of their slots.
std::vector<uint16_t> PeersOn(const graph::Program& program, uint16_t comm_slot) {
  std::set<uint16_t> slots;
  for (const graph::PeerGroup& group : program.peer_groups) {
    for (const graph::PeerTransfer& transfer : group.transfers) {
      if (transfer.comm_slot == comm_slot) {
        slots.insert(transfer.peer_slot);
      }
    }
  }
  return {slots.begin(), slots.end()};
}

// Where a rank addresses each member of a group in turn, including itself (an all-to-all of uneven
// sizes), its peers are given by place in the group, the same for every member. So is the peer of a
// rank that addresses only one in a group of more than two (the root of a gather or scatter). All
// other peers are given by distance, like the neighbours in a pipeline or a ring.
void TakePlaces(const RankGrid& grid, const graph::Fragment& fragment, SlotPatterns* patterns) {
  for (size_t slot = 0; slot < fragment.comm_slots.size(); ++slot) {
    const std::vector<Rank>& members = fragment.comm_slots[slot].members;
    const std::vector<uint16_t> peers = PeersOn(fragment.program, static_cast<uint16_t>(slot));
    const bool all_in_turn =
        std::equal(peers.begin(), peers.end(), members.begin(), members.end(),
                   [&](uint16_t peer, Rank member) { return fragment.peer_slots[peer] == member; });
    const bool only_one = peers.size() == 1 && members.size() > 2;
    if (!all_in_turn && !only_one) {
      continue;
    }
    for (const uint16_t peer : peers) {
      patterns->peers[peer] =
          grid.PlaceOf(fragment.peer_slots[peer], patterns->communicators[slot].group);
    }
  }
}

std::vector<size_t> SlotsByOrdinal(const std::vector<CommunicatorPattern>& patterns) {
  std::vector<size_t> slots(patterns.size());
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::stable_sort(slots, {}, [&](size_t slot) { return patterns[slot].ordinal; });
  return slots;
}

// Numbers equal ones by when their groups were created: ranks may first use them in different
// orders.
void SetOrdinals(const graph::Fragment& fragment, std::vector<CommunicatorPattern>* patterns) {
  std::vector<size_t> slots(patterns->size());
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::stable_sort(slots, {},
                           [&](size_t slot) { return fragment.comm_slots[slot].group_number; });
  for (size_t i = 0; i < slots.size(); ++i) {
    CommunicatorPattern& pattern = (*patterns)[slots[i]];
    pattern.ordinal = static_cast<uint32_t>(
        std::count_if(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(i), [&](size_t slot) {
          const CommunicatorPattern& earlier = (*patterns)[slot];
          return earlier.name == pattern.name && earlier.group == pattern.group;
        }));
  }
}

}  // namespace

Result<SlotPatterns> PatternsOf(const RankGrid& grid, const graph::Fragment& fragment) {
  SlotPatterns patterns;
  for (const graph::FragmentCommunicator& slot : fragment.comm_slots) {
    PRISM_ASSIGN_OR_RETURN(GridGroup group, grid.GroupOf(fragment.rank, slot.members));
    std::string name = slot.name.empty() ? grid.Name(group) : slot.name;
    patterns.communicators.push_back({.name = std::move(name), .group = std::move(group)});
  }
  SetOrdinals(fragment, &patterns.communicators);
  for (const Rank peer : fragment.peer_slots) {
    if (peer.value() >= grid.world_size()) {
      return RunFailed(fmt::format("rank {} sends to or receives from rank {}, but the job has {}",
                                   fragment.rank.value(), peer.value(), grid.world_size()));
    }
    patterns.peers.push_back(grid.PeerOf(fragment.rank, peer));
  }
  TakePlaces(grid, fragment, &patterns);
  return patterns;
}

Status FillRankTables(const RankGrid& grid,
                      const std::vector<SlotPatterns>& patterns,
                      TableMerger& merger,
                      graph::Graph& graph) {
  graph::RankTable& table = graph.ranks;
  graph.communicators = {};
  Communicators communicators(grid, merger, graph.communicators);
  std::vector<std::vector<size_t>> families(patterns.size());  // by role and slot
  std::vector<std::vector<size_t>> orders;                     // by role: its slots
  for (size_t role = 0; role < patterns.size(); ++role) {
    for (const CommunicatorPattern& pattern : patterns[role].communicators) {
      families[role].push_back(communicators.FamilyOf(pattern));
    }
    orders.push_back(SlotsByOrdinal(patterns[role].communicators));
  }
  table.comm_begin = {0};
  table.comm_ids.clear();
  table.peer_begin = {0};
  table.peer_ids.clear();
  for (uint32_t rank = 0; rank < table.size(); ++rank) {
    const uint32_t role = table.role[rank];
    const size_t begin = table.comm_ids.size();
    table.comm_ids.resize(begin + families[role].size());
    for (const size_t slot : orders[role]) {
      const uint32_t comm = communicators.CommunicatorOf(Rank(rank), families[role][slot]);
      if (comm == kNone) {
        return RunFailed(
            fmt::format("rank {} should do what rank {} did, but it is in no group like group {} "
                        "of that rank; the ranks of {} differ",
                        rank, graph.roles[role].representative.value(),
                        patterns[role].communicators[slot].name, graph.roles[role].name));
      }
      table.comm_ids[begin + slot] = comm;
    }
    table.comm_begin.push_back(static_cast<uint32_t>(table.comm_ids.size()));
    for (const graph::GridPeer& peer : patterns[role].peers) {
      table.peer_ids.push_back(grid.RankOf(Rank(rank), peer).value());
    }
    table.peer_begin.push_back(static_cast<uint32_t>(table.peer_ids.size()));
  }
  return OkStatus();
}

}  // namespace prism::slicer
