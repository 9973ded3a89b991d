#include "slicer/stitch/rank_tables.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

using graph::Coordinates;
using graph::GroupPattern;
using graph::kAxisCount;
using graph::ParallelLayout;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// All communicators of one pattern and name. They are disjoint, so the lowest member names one.
struct Family {
  CommunicatorPattern pattern;
  std::vector<uint32_t> comm_by_lowest;  // by rank
};

// Communicators of the whole job, created as ranks ask for them.
class Communicators {
 public:
  Communicators(const ParallelLayout& layout, TableMerger& merger, graph::CommunicatorTable& table)
      : layout_(layout), merger_(merger), table_(table) {}

  // Index of the family, for CommunicatorOf.
  size_t FamilyOf(const CommunicatorPattern& pattern) {
    const auto found = std::find_if(families_.begin(), families_.end(), [&](const Family& family) {
      return family.pattern == pattern;
    });
    if (found != families_.end()) {
      return static_cast<size_t>(found - families_.begin());
    }
    families_.push_back(
        {pattern, std::vector<uint32_t>(static_cast<size_t>(layout_.world_size()), kNone)});
    return families_.size() - 1;
  }

  // The communicator of that family that the rank is in; kNone when it is in none.
  uint32_t CommunicatorOf(Rank rank, size_t family_index) {
    Family& family = families_[family_index];
    Coordinates lowest = layout_.CoordinatesOf(rank);
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      const std::vector<int32_t>& list = family.pattern.group.coordinates[axis];
      if (list.empty()) {
        continue;
      }
      if (!std::binary_search(list.begin(), list.end(), lowest[axis])) {
        return kNone;
      }
      lowest[axis] = list.front();
    }
    uint32_t& comm = family.comm_by_lowest[layout_.RankAt(lowest).value()];
    if (comm == kNone) {
      comm = Create(rank, family.pattern);
    }
    return comm;
  }

 private:
  uint32_t Create(Rank rank, const CommunicatorPattern& pattern) {
    for (const Rank member : layout_.MembersOf(rank, pattern.group)) {
      table_.members.push_back(member.value());
    }
    table_.begin.push_back(static_cast<uint32_t>(table_.members.size()));
    table_.name.push_back(merger_.InternString(pattern.name));
    return table_.size() - 1;
  }

  const ParallelLayout& layout_;
  TableMerger& merger_;
  graph::CommunicatorTable& table_;
  std::vector<Family> families_;
};

}  // namespace

Result<SlotPatterns> PatternsOf(const ParallelLayout& layout, const graph::Fragment& fragment) {
  SlotPatterns patterns;
  for (const graph::FragmentCommunicator& slot : fragment.comm_slots) {
    PRISM_ASSIGN_OR_RETURN(GroupPattern group, layout.PatternOf(fragment.rank, slot.members));
    CommunicatorPattern pattern;
    pattern.name = slot.name.empty() ? layout.PatternName(group) : slot.name;
    pattern.group = std::move(group);
    pattern.ordinal = static_cast<uint32_t>(
        std::count_if(patterns.communicators.begin(), patterns.communicators.end(),
                      [&](const CommunicatorPattern& earlier) {
                        return earlier.name == pattern.name && earlier.group == pattern.group;
                      }));
    patterns.communicators.push_back(std::move(pattern));
  }
  for (const Rank peer : fragment.peer_slots) {
    if (peer.value() >= static_cast<uint32_t>(layout.world_size())) {
      return RunFailed(fmt::format("rank {} sends to or receives from rank {}, but the job has {}",
                                   fragment.rank.value(), peer.value(), layout.world_size()));
    }
    patterns.peers.push_back(layout.PeerPatternOf(fragment.rank, peer));
  }
  return patterns;
}

Status FillRankTables(const ParallelLayout& layout,
                      const std::vector<SlotPatterns>& patterns,
                      TableMerger& merger,
                      graph::Graph& graph) {
  graph::RankTable& table = graph.ranks;
  graph.communicators = {};
  Communicators communicators(layout, merger, graph.communicators);
  std::vector<std::vector<size_t>> families(patterns.size());  // by role and slot
  for (size_t role = 0; role < patterns.size(); ++role) {
    for (const CommunicatorPattern& pattern : patterns[role].communicators) {
      families[role].push_back(communicators.FamilyOf(pattern));
    }
  }
  table.comm_begin = {0};
  table.comm_ids.clear();
  table.peer_begin = {0};
  table.peer_ids.clear();
  for (uint32_t rank = 0; rank < table.size(); ++rank) {
    const uint32_t role = table.role[rank];
    for (size_t slot = 0; slot < families[role].size(); ++slot) {
      const uint32_t comm = communicators.CommunicatorOf(Rank(rank), families[role][slot]);
      if (comm == kNone) {
        return RunFailed(fmt::format(
            "rank {} is taken to do what rank {} did, but is in no group like its group {}; the "
            "ranks of {} are not alike",
            rank, graph.roles[role].representative.value(), patterns[role].communicators[slot].name,
            graph.roles[role].name));
      }
      table.comm_ids.push_back(comm);
    }
    table.comm_begin.push_back(static_cast<uint32_t>(table.comm_ids.size()));
    for (const graph::PeerPattern& peer : patterns[role].peers) {
      table.peer_ids.push_back(layout.PeerOf(Rank(rank), peer).value());
    }
    table.peer_begin.push_back(static_cast<uint32_t>(table.peer_ids.size()));
  }
  return OkStatus();
}

}  // namespace prism::slicer
