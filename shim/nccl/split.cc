#include "shim/nccl/split.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "graph/base/fnv.h"
#include "shim/nccl/group.h"
#include "shim/session.h"

namespace prism::shim {

namespace {

struct Choice {
  int32_t color;
  int32_t key;
};

// Counts the parent's children, so that members agree on which one is meant.
uint64_t ChildIdentity(Communicator* parent, int color) {
  const std::lock_guard<std::mutex> lock(parent->mutex);
  const uint64_t numbers[] = {parent->identity, parent->splits++,
                              static_cast<uint64_t>(static_cast<uint32_t>(color))};
  return FnvBytes(numbers, sizeof(numbers));
}

// Members of a child from ranks of its parent.
Membership MembersOf(const Communicator& parent, const std::vector<int32_t>& ranks) {
  std::vector<int32_t> members;
  for (const int32_t rank : ranks) {
    if (parent.members.known()) {
      members.push_back(parent.members.GlobalRank(rank));
    }
  }
  return Membership::Of(std::move(members));
}

std::vector<int32_t> MembersAsRanks(const CommunicatorSpec& child) {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < child.size; ++rank) {
    ranks.push_back(child.members.GlobalRank(rank));
  }
  return ranks;
}

// The child that consists of these ranks of the parent, in this order.
CommunicatorSpec ChildOf(const Communicator& parent,
                         const std::vector<int32_t>& ranks,
                         uint64_t identity) {
  const auto own = std::find(ranks.begin(), ranks.end(), parent.rank);
  CommunicatorSpec spec = DescribeGroup(static_cast<int32_t>(ranks.size()),
                                        static_cast<int32_t>(own - ranks.begin()), identity);
  spec.identity = identity;
  spec.parent = &parent;
  const Membership members = MembersOf(parent, ranks);
  if (members.known()) {
    spec.members = members;
  }
  return spec;
}

// Every member's colour and key; only when all are present.
SplitResult SplitByExchange(Communicator* parent, Choice own, uint64_t identity) {
  SplitResult result;
  std::vector<Choice> choices(static_cast<size_t>(parent->size));
  Memory memory;
  Exchange exchange(SharedArena(), &memory);
  ExchangeCall call;
  call.group = parent->Group();
  call.count = sizeof(Choice);
  const ExchangeStatus status =
      exchange.Collective(ExchangeOperation::kAllGather, call, &own, choices.data());
  if (!status.ok()) {
    result.code = SetLastError(ncclRemoteError, status.message);
    return result;
  }
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < parent->size; ++rank) {
    if (choices[static_cast<size_t>(rank)].color == own.color) {
      ranks.push_back(rank);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int32_t left, int32_t right) {
    return choices[static_cast<size_t>(left)].key < choices[static_cast<size_t>(right)].key;
  });
  result.is_member = own.color != NCCL_SPLIT_NOCOLOR;
  if (result.is_member) {
    result.child = ChildOf(*parent, ranks, identity);
  }
  return result;
}

}  // namespace

SplitResult Split(Communicator* parent, int color, int key) {
  const uint64_t identity = ChildIdentity(parent, color);
  if (parent->present.size() == static_cast<size_t>(parent->size)) {
    return SplitByExchange(parent, {color, key}, identity);
  }
  SplitResult result;
  if (color == NCCL_SPLIT_NOCOLOR) {
    return result;
  }
  result.is_member = true;
  result.child = DescribeFrameworkGroup(identity);
  result.child.parent = parent;
  if (result.child.of_parent) {
    result.child.members = MembersOf(*parent, MembersAsRanks(result.child));
  }
  if (result.child.size == 0) {
    Refuse("ncclCommSplit of a communicator with virtual members whose child nobody names");
    result.code = SetLastError(ncclInvalidUsage, "ncclCommSplit : members of the child not known");
  }
  return result;
}

SplitResult Shrink(Communicator* parent, const std::vector<int>& excluded) {
  SplitResult result;
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < parent->size; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) {
      ranks.push_back(rank);
    }
  }
  if (std::find(ranks.begin(), ranks.end(), parent->rank) == ranks.end()) {
    result.code = SetLastError(ncclInvalidArgument, "ncclCommShrink : called by an excluded rank");
    return result;
  }
  result.is_member = true;
  result.child = ChildOf(*parent, ranks, ChildIdentity(parent, static_cast<int>(ranks.size())));
  return result;
}

}  // namespace prism::shim
