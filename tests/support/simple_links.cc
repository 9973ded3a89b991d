#include "tests/support/simple_links.h"

#include <algorithm>

namespace prism::testing {

DurationNs ShareOfLink(const LinkEnd& end,
                       const graph::PeerGroup& group,
                       const graph::PeerTransfer& mine) {
  const auto peer_of = [&](const graph::PeerTransfer& t) {
    return end.graph.ranks.peers(end.rank)[t.peer_slot];
  };
  const auto on_node = [&](const graph::PeerTransfer& t) {
    const auto per_node = static_cast<uint32_t>(end.graph.cluster.gpus_per_node);
    return peer_of(t) / per_node == end.rank.value() / per_node;
  };
  const auto is_self = [&](const graph::PeerTransfer& t) { return peer_of(t) == end.rank.value(); };
  int64_t bytes = mine.bytes;
  for (const graph::PeerTransfer& other : group.transfers) {
    const bool shares = &other != &mine && other.is_send == mine.is_send && !is_self(mine) &&
                        !is_self(other) && (on_node(other) || !on_node(mine));
    bytes += shares ? std::min(other.bytes, mine.bytes) : 0;
  }
  return end.cost.PeerTransfer(bytes, on_node(mine));
}

}  // namespace prism::testing
