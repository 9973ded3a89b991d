// The slots of each rank are sorted by the peer in them, once; then a rank's slot at its peer is
// one binary search. Stable sorting and lower_bound together give the first of several slots that
// hold the same peer.
#include "graph/rank_slots.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace prism::graph {

uint16_t CommSlotOf(const RankTable& ranks, Rank rank, CommId comm) {
  const auto held = ranks.comms(rank);
  const auto found = std::ranges::find(held, comm.value());
  return found == held.end() ? kNoSlot : static_cast<uint16_t>(found - held.begin());
}

std::vector<uint16_t> ReversePeerSlots(const RankTable& ranks) {
  std::vector<uint16_t> by_peer(ranks.peer_ids.size());  // of each rank: its slots
  const auto slots_of = [&](uint32_t rank) {
    const uint32_t first = ranks.peer_begin[rank];
    return std::span(by_peer).subspan(first, ranks.peer_begin[rank + 1] - first);
  };
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::span<uint16_t> slots = slots_of(rank);
    const auto peers = ranks.peers(Rank(rank));
    std::iota(slots.begin(), slots.end(), uint16_t{0});
    std::ranges::stable_sort(slots, {}, [&](uint16_t slot) { return peers[slot]; });
  }
  std::vector<uint16_t> reverse;
  reverse.reserve(by_peer.size());
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    for (const uint32_t peer : ranks.peers(Rank(rank))) {
      const std::span<uint16_t> slots = slots_of(peer);
      const auto peers = ranks.peers(Rank(peer));
      const auto found =
          std::ranges::lower_bound(slots, rank, {}, [&](uint16_t slot) { return peers[slot]; });
      reverse.push_back(found != slots.end() && peers[*found] == rank ? *found : kNoSlot);
    }
  }
  return reverse;
}

}  // namespace prism::graph
