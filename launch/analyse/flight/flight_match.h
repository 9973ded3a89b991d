// Compares a flight recorder's dump with the graph: how far the rank followed the graph, what comes
// next, and what its peers would have in their own recorders by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/analyse/flight/flight_calls.h"

namespace prism::launch {

// did[begin, begin + count) are the calls of the graph's iteration, over and over, from
// iteration[phase] on: the longest such run in the dump (the first of several), or the one from a
// given beginning. What came before is not part of the iteration (set-up), or was partly or
// completely overwritten; what comes after departs from it.
struct FlightMatch {
  std::vector<FlightCall> did;
  std::map<std::string, int64_t> unknown;  // entries of the dump that are left out, by name
  std::vector<FlightCall> iteration;
  size_t begin = 0;
  size_t count = 0;
  size_t phase = 0;
  size_t places = 1;  // number of phases at which a run of this length matches

  [[nodiscard]] size_t end() const { return begin + count; }
  [[nodiscard]] const FlightCall& expected() const {
    return iteration[(phase + count) % iteration.size()];
  }
};

// `begin`: the call of the dump with which an iteration begins, if known. kInvalidArgument if
// nothing in the dump is part of the graph's iteration, or that iteration has no calls.
Result<FlightMatch> MatchDump(const graph::Graph& graph,
                              Rank rank,
                              const FlightDump& dump,
                              std::optional<size_t> begin = {});

// The other ranks in the expected call, ascending.
std::vector<Rank> PeersOfExpected(const graph::Graph& graph, Rank rank, const FlightMatch& match);

// What `peer` shares with `rank`: the calls before the departure, as in the dump, and the next one
// in the graph with both ranks, as scheduled. Stacks are not known. Shapes are those of the same
// call one iteration earlier; without one, a vector of equal length.
FlightDump PeerDump(const graph::Graph& graph,
                    Rank rank,
                    const FlightDump& dump,
                    const FlightMatch& match,
                    Rank peer);

}  // namespace prism::launch
