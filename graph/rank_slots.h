// In which slot a rank holds a communicator or a peer: the rank table read backwards.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace prism::graph {

// The slot in which `rank` holds `comm`; kNoSlot where it does not.
uint16_t CommSlotOf(const RankTable& ranks, Rank rank, CommId comm);

// Parallel to RankTable::peer_ids: the first slot in which that peer holds the rank, kNoSlot where
// it does not. For all ranks at once, from lists that are sorted once: where every rank is a peer
// of every other, a search for each pair would take time cubic in the ranks.
std::vector<uint16_t> ReversePeerSlots(const RankTable& ranks);

}  // namespace prism::graph
