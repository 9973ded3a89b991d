// What one rank does and what the others do at the same place: communicators, collectives, sends
// and receives, markers.
//
// There are many ranks but few combinations: two communicators whose members come from the same
// (role, slot) pairs need one comparison. So the checks run over all ranks, and the cost is one
// pass over the rank table plus one comparison per distinct combination.

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "graph/describe.h"
#include "graph/rank_slots.h"
#include "graph/validate/validate_internal.h"

namespace prism::graph::internal {
namespace {

constexpr const char* kIterationMarker = "iteration";
constexpr uint32_t kNoComm = std::numeric_limits<uint32_t>::max();

// The ids that a list of slots holds more than once, ascending.
std::vector<uint32_t> Repeated(std::span<const uint32_t> slots) {
  std::vector<uint32_t> ids(slots.begin(), slots.end());
  std::ranges::sort(ids);
  std::vector<uint32_t> repeated;
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] == ids[i - 1]) {
      repeated.push_back(ids[i]);
    }
  }
  return repeated;
}

std::string CommunicatorName(const Graph& graph, uint32_t comm) {
  return fmt::format("{} (number {})", graph.strings[graph.communicators.name[comm]], comm);
}

void CheckRankSlots(const Graph& graph, Rank rank, FaultList& faults) {
  const auto comms = graph.ranks.comms(rank);
  for (size_t slot = 0; slot < comms.size(); ++slot) {
    const auto members = graph.communicators.members_of(CommId(comms[slot]));
    if (!std::ranges::binary_search(members, rank.value())) {
      faults.Add("rank_not_in_communicator",
                 fmt::format("rank {} uses communicator {} in slot {} but is not a member of it",
                             rank.value(), CommunicatorName(graph, comms[slot]), slot));
    }
  }
  for (const uint32_t comm : Repeated(comms)) {
    faults.Add("slot_duplicate", fmt::format("rank {} has communicator {} in two slots",
                                             rank.value(), CommunicatorName(graph, comm)));
  }
  for (const uint32_t peer : Repeated(graph.ranks.peers(rank))) {
    faults.Add("slot_duplicate",
               fmt::format("rank {} has peer {} in two slots", rank.value(), peer));
  }
}

// All ops of a program that are collectives on one slot, by slot.
std::vector<std::vector<uint32_t>> CollectivesBySlot(const Program& program) {
  std::vector<std::vector<uint32_t>> by_slot(program.comm_slot_count);
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kCollective) {
      by_slot[program.comm_slot[op]].push_back(op);
    }
  }
  return by_slot;
}

class CollectiveCheck {
 public:
  CollectiveCheck(const Graph& graph, FaultList& faults) : graph_(graph), faults_(faults) {
    for (const Role& role : graph.roles) {
      by_role_.push_back(CollectivesBySlot(role.program));
    }
  }

  void Run() {
    std::set<std::vector<uint64_t>> seen;  // combinations of (role, slot) already compared
    for (uint32_t comm = 0; comm < graph_.communicators.size(); ++comm) {
      const auto members = graph_.communicators.members_of(CommId(comm));
      std::map<uint64_t, uint32_t> users;  // (role, slot) → lowest rank
      for (const uint32_t member : members) {
        const uint64_t role = graph_.ranks.role[member];
        const uint32_t slot = CommSlotOf(graph_.ranks, Rank(member), CommId(comm));
        users.try_emplace((role << 32U) | slot, member);
      }
      std::vector<uint64_t> key;
      for (const auto& [user, rank] : users) {
        key.push_back(user);
      }
      if (users.size() > 1 && seen.insert(std::move(key)).second) {
        Compare(comm, users);
      }
    }
  }

 private:
  [[nodiscard]] const std::vector<uint32_t>& Sequence(uint64_t user) const {
    static const std::vector<uint32_t> kUnused;
    const auto slot = static_cast<uint32_t>(user);
    return slot == kNoSlot ? kUnused : by_role_[user >> 32U][slot];
  }

  void Compare(uint32_t comm, const std::map<uint64_t, uint32_t>& users) {
    const auto& [first_user, first_rank] = *users.begin();
    for (const auto& [user, rank] : users) {
      if (user != first_user) {
        ComparePair(comm, {first_user, first_rank}, {user, rank});
      }
    }
  }

  void ComparePair(uint32_t comm,
                   std::pair<uint64_t, uint32_t> left,
                   std::pair<uint64_t, uint32_t> right) {
    const std::vector<uint32_t>& a = Sequence(left.first);
    const std::vector<uint32_t>& b = Sequence(right.first);
    const Program& program_a = graph_.role_of(Rank(left.second)).program;
    const Program& program_b = graph_.role_of(Rank(right.second)).program;
    const size_t common = std::min(a.size(), b.size());
    for (size_t i = 0; i < common; ++i) {
      if (program_a.collectives[program_a.signature[a[i]]] !=
          program_b.collectives[program_b.signature[b[i]]]) {
        faults_.Add("collective_mismatch",
                    fmt::format("collective {} of communicator {}: {}; {}", i,
                                CommunicatorName(graph_, comm),
                                DescribeRankOp(graph_, Rank(left.second), a[i]),
                                DescribeRankOp(graph_, Rank(right.second), b[i])),
                    {{Rank(left.second), a[i]}, {Rank(right.second), b[i]}});
        return;  // the rest is shifted, and would all differ
      }
    }
    if (a.size() == b.size()) {
      return;
    }
    const bool left_longer = a.size() > b.size();
    const Rank longer(left_longer ? left.second : right.second);
    const Rank shorter(left_longer ? right.second : left.second);
    faults_.Add("collective_missing",
                fmt::format("collective {} of communicator {}: {}; rank {} issues only {} there",
                            common, CommunicatorName(graph_, comm),
                            DescribeRankOp(graph_, longer, left_longer ? a[common] : b[common]),
                            shorter.value(), common),
                {{longer, left_longer ? a[common] : b[common]}});
  }

  const Graph& graph_;
  FaultList& faults_;
  std::vector<std::vector<std::vector<uint32_t>>> by_role_;  // [role][slot] → ops
};

// The transfers of a program in one direction with one peer on one communicator, in issue order.
struct TransferList {
  std::vector<uint32_t> op;
  std::vector<int64_t> bytes;
};

using TransferKey = std::tuple<uint16_t, uint16_t, bool>;  // communicator slot, peer slot, is_send
using TransferLists = std::map<TransferKey, TransferList>;

TransferLists TransfersOf(const Program& program) {
  TransferLists lists;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != OpKind::kPeerGroup) {
      continue;
    }
    for (const PeerTransfer& transfer : program.peer_groups[program.signature[op]].transfers) {
      TransferList& list = lists[{transfer.comm_slot, transfer.peer_slot, transfer.is_send}];
      list.op.push_back(op);
      list.bytes.push_back(transfer.bytes);
    }
  }
  return lists;
}

class PeerCheck {
 public:
  PeerCheck(const Graph& graph, FaultList& faults)
      : graph_(graph), faults_(faults), reverse_slot_(ReversePeerSlots(graph.ranks)) {
    for (const Role& role : graph.roles) {
      by_role_.push_back(TransfersOf(role.program));
    }
  }

  void Run() {
    for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      for (const auto& [key, list] : by_role_[graph_.ranks.role[rank]]) {
        CheckList(Rank(rank), key, list);
      }
    }
  }

 private:
  void CheckList(Rank rank, const TransferKey& key, const TransferList& list) {
    const auto [comm_slot, peer_slot, is_send] = key;
    const Rank peer(graph_.ranks.peers(rank)[peer_slot]);
    const CommId comm(graph_.ranks.comms(rank)[comm_slot]);
    const uint16_t peer_comm_slot = CommSlotOf(graph_.ranks, peer, comm);
    const uint16_t back_slot = reverse_slot_[graph_.ranks.peer_begin[rank.value()] + peer_slot];
    const std::array<uint32_t, 7> combination = {graph_.ranks.role[rank.value()],
                                                 graph_.ranks.role[peer.value()],
                                                 comm_slot,
                                                 peer_slot,
                                                 is_send ? 1U : 0U,
                                                 peer_comm_slot,
                                                 back_slot};
    if (!seen_.insert(combination).second) {
      return;
    }
    static const TransferList kNoTransfers;
    const TransferList* other = &kNoTransfers;
    if (peer_comm_slot != kNoSlot && back_slot != kNoSlot) {
      const TransferLists& lists = by_role_[graph_.ranks.role[peer.value()]];
      const auto found = lists.find({peer_comm_slot, back_slot, !is_send});
      other = found == lists.end() ? other : &found->second;
    }
    Compare(rank, peer, is_send, {&list, other});
  }

  void Compare(Rank rank,
               Rank peer,
               bool is_send,
               std::pair<const TransferList*, const TransferList*> lists) {
    const auto& [own, other] = lists;
    const size_t common = std::min(own->op.size(), other->op.size());
    if (is_send) {  // the receiving side would only repeat it
      for (size_t i = 0; i < common; ++i) {
        if (own->bytes[i] != other->bytes[i]) {
          faults_.Add("transfer_mismatch",
                      fmt::format("send {} from rank {} to rank {} has {} bytes, its receive {}: "
                                  "{}; {}",
                                  i, rank.value(), peer.value(), own->bytes[i], other->bytes[i],
                                  DescribeRankOp(graph_, rank, own->op[i]),
                                  DescribeRankOp(graph_, peer, other->op[i])),
                      {{rank, own->op[i]}, {peer, other->op[i]}});
          return;
        }
      }
    }
    if (own->op.size() > common) {
      faults_.Add(is_send ? "unpaired_send" : "unpaired_receive",
                  fmt::format("{}; rank {} has only {} such {}",
                              DescribeRankOp(graph_, rank, own->op[common]), peer.value(), common,
                              is_send ? "receives" : "sends"),
                  {{rank, own->op[common]}});
    }
  }

  const Graph& graph_;
  FaultList& faults_;
  std::vector<uint16_t> reverse_slot_;  // parallel to RankTable::peer_ids
  std::vector<TransferLists> by_role_;
  std::set<std::array<uint32_t, 7>> seen_;
};

// The ops that mark iterations: every rank must have the same ones. Markers of phases, layers and
// micro-batches differ between stages by design.
std::vector<uint32_t> IterationMarkers(const Graph& graph, const Program& program) {
  std::vector<uint32_t> markers;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kMarker &&
        graph.strings[program.signature[op]] == kIterationMarker) {
      markers.push_back(op);
    }
  }
  return markers;
}

// Communicators seen in one slot of one role are instances of one pattern and must be disjoint.
class FamilyCheck {
 public:
  FamilyCheck(const Graph& graph, FaultList& faults)
      : graph_(graph), faults_(faults), comm_of_(graph.ranks.size(), kNoComm) {}

  // Takes all ranks of a role. (A single rank has one communicator per slot.)
  void Run(std::span<const uint32_t> ranks) {
    if (ranks.size() < 2) {
      return;
    }
    for (uint32_t slot = 0; slot < graph_.ranks.comms(Rank(ranks.front())).size(); ++slot) {
      for (const uint32_t rank : ranks) {
        if (comm_of_[rank] != graph_.ranks.comms(Rank(rank))[slot]) {
          Take(Rank(rank), slot);
        }
      }
      for (const uint32_t member : taken_) {
        comm_of_[member] = kNoComm;
      }
      taken_.clear();
    }
  }

 private:
  void Take(Rank rank, uint32_t slot) {
    const uint32_t comm = graph_.ranks.comms(rank)[slot];
    for (const uint32_t member : graph_.communicators.members_of(CommId(comm))) {
      if (comm_of_[member] != kNoComm) {
        faults_.Add("communicators_overlap",
                    fmt::format("rank {} is a member of {} and of {}, both slot {} of role {}",
                                member, CommunicatorName(graph_, comm_of_[member]),
                                CommunicatorName(graph_, comm), slot, graph_.role_of(rank).name));
        return;
      }
      comm_of_[member] = comm;
      taken_.push_back(member);
    }
  }

  const Graph& graph_;
  FaultList& faults_;
  std::vector<uint32_t> comm_of_;  // by rank, of one role and slot
  std::vector<uint32_t> taken_;    // ranks that have one
};

}  // namespace

void CheckCommunicators(const Graph& graph, FaultList& faults) {
  std::vector<std::vector<uint32_t>> ranks_of(graph.roles.size());
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    CheckRankSlots(graph, Rank(rank), faults);
    ranks_of[graph.ranks.role[rank]].push_back(rank);
  }
  FamilyCheck families(graph, faults);
  for (const std::vector<uint32_t>& ranks : ranks_of) {
    families.Run(ranks);
  }
}

void CheckCollectives(const Graph& graph, FaultList& faults) {
  CollectiveCheck(graph, faults).Run();
}

void CheckPeerTransfers(const Graph& graph, FaultList& faults) {
  PeerCheck(graph, faults).Run();
}

void CheckMarkers(const Graph& graph, FaultList& faults) {
  if (graph.roles.empty()) {
    return;
  }
  const Role& first = graph.roles.front();
  const std::vector<uint32_t> expected = IterationMarkers(graph, first.program);
  for (const Role& role : graph.roles) {
    const std::vector<uint32_t> markers = IterationMarkers(graph, role.program);
    if (markers.size() != expected.size()) {
      faults.Add("marker_mismatch",
                 fmt::format("role {} has {} iteration markers, role {} has {}", role.name,
                             markers.size(), first.name, expected.size()));
      continue;
    }
    for (size_t i = 0; i < markers.size(); ++i) {
      if (role.program.flags[markers[i]] != first.program.flags[expected[i]]) {
        faults.Add("marker_mismatch",
                   fmt::format("iteration marker {}: {}; {}", i,
                               DescribeRankOp(graph, role.representative, markers[i]),
                               DescribeRankOp(graph, first.representative, expected[i])));
        break;
      }
    }
  }
}

}  // namespace prism::graph::internal
