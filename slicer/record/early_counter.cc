// Two ranks must agree on what they call before the program is steady, but not on its order, so
// calls are counted per iteration, kind and group, in keys that both sides form alike: a transfer
// counts as (sender, receiver) on either side. A group of transfers with many peers, or with the
// rank itself, is an exchange among all; the ranks of a pipeline or a ring have two neighbours at
// most.
#include "slicer/record/early_counter.h"

#include <set>
#include <utility>

#include "graph/base/intern.h"

namespace prism::slicer {

using graph::CollectiveKind;
using graph::EarlySort;

void EarlyCounter::AddCollective(const channel::CollectiveBody& body,
                                 const RecordedCommunicator* communicator,
                                 int32_t iteration) {
  if (communicator == nullptr || !communicator->members_known || communicator->size == 1) {
    return;
  }
  ++counts_[{iteration, EarlySort::kCollective, static_cast<CollectiveKind>(body.collective),
             body.root, graph::EarlyGroup{communicator->members, communicator->identity}}];
}

void EarlyCounter::AddTransfer(const channel::Record& record,
                               const RecordedCommunicator* communicator) {
  const channel::PeerTransferBody& body = record.peer;
  if (communicator == nullptr || !communicator->members_known || body.peer < 0 ||
      body.peer >= communicator->size) {
    return;
  }
  const Rank peer = communicator->members[static_cast<size_t>(body.peer)];
  pending_[record.thread].push_back(body.is_send != 0 ? std::vector<Rank>{self_, peer}
                                                      : std::vector<Rank>{peer, self_});
}

void EarlyCounter::EndGroup(uint16_t thread, int32_t iteration) {
  constexpr size_t kMaxNeighbours = 2;  // of a pipeline's or ring's rank
  const std::vector<std::vector<Rank>> transfers = std::exchange(pending_[thread], {});
  std::set<Rank> peers;
  for (const std::vector<Rank>& pair : transfers) {
    peers.insert(pair[0] == self_ ? pair[1] : pair[0]);
  }
  const bool is_exchange = peers.size() > kMaxNeighbours || peers.contains(self_);
  for (const std::vector<Rank>& pair : transfers) {
    ++counts_[{iteration, is_exchange ? EarlySort::kExchange : EarlySort::kMessage,
               CollectiveKind::kAllReduce, -1, graph::EarlyGroup{pair}}];
  }
}

void EarlyCounter::MoveInto(int32_t last, graph::Fragment* fragment) {
  std::map<graph::EarlyGroup, uint32_t> groups;
  for (const auto& [key, count] : std::exchange(counts_, {})) {
    const auto& [iteration, sort, kind, root, called] = key;
    if (iteration > last) {
      break;
    }
    fragment->early_calls.push_back(
        {iteration, sort, kind, root, InternValue(fragment->early_groups, groups, called), count});
  }
}

}  // namespace prism::slicer
