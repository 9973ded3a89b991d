#include "slicer/probe/exchange_classes.h"

#include <algorithm>

namespace prism::slicer {
namespace {

using graph::Fragment;
using graph::RankGrid;

// What one rank exchanges with each coordinate of an axis, in order: bytes, those sent negative.
struct Exchange {
  int32_t own = 0;
  std::vector<std::vector<int64_t>> bytes;  // by coordinate
};

Exchange ExchangeOf(const RankGrid& grid, size_t axis, const Fragment& rank) {
  Exchange exchange;
  exchange.own = grid.Coordinate(rank.rank, axis);
  exchange.bytes.resize(static_cast<size_t>(grid.axes()[axis].size));
  for (uint32_t op = 0; op < rank.program.size(); ++op) {
    if (rank.program.kind[op] != graph::OpKind::kPeerGroup) {
      continue;
    }
    for (const auto& transfer : rank.program.peer_groups[rank.program.signature[op]].transfers) {
      const Rank peer = rank.peer_slots[transfer.peer_slot];
      const int32_t other = grid.Coordinate(peer, axis);
      if (grid.Moved(rank.rank, axis, other) == peer) {
        exchange.bytes[static_cast<size_t>(other)].push_back(transfer.is_send ? -transfer.bytes
                                                                              : transfer.bytes);
      }
    }
  }
  return exchange;
}

// A rank's exchange with itself says nothing about the others.
bool AreAlike(const std::vector<Exchange>& exchanges, int32_t a, int32_t b) {
  return std::ranges::all_of(exchanges, [&](const Exchange& exchange) {
    return exchange.own == a || exchange.own == b ||
           exchange.bytes[static_cast<size_t>(a)] == exchange.bytes[static_cast<size_t>(b)];
  });
}

}  // namespace

std::vector<int32_t> ExchangeClasses(const RankGrid& grid,
                                     size_t axis,
                                     const std::vector<const Fragment*>& recorded) {
  std::vector<Exchange> exchanges;
  for (const Fragment* rank : recorded) {
    exchanges.push_back(ExchangeOf(grid, axis, *rank));
    const Exchange& exchange = exchanges.back();
    for (size_t other = 0; other < exchange.bytes.size(); ++other) {
      if (exchange.bytes[other].empty() && static_cast<int32_t>(other) != exchange.own) {
        return {};
      }
    }
  }
  std::vector<int32_t> classes;
  for (int32_t coordinate = 0; coordinate < grid.axes()[axis].size; ++coordinate) {
    int32_t first = 0;
    while (first < coordinate && (classes[static_cast<size_t>(first)] != first ||
                                  !AreAlike(exchanges, first, coordinate))) {
      ++first;
    }
    classes.push_back(first);
  }
  return classes;
}

}  // namespace prism::slicer
