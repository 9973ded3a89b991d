// A flight recorder's dump held against the graph: how far the rank did what the graph has, what
// comes next, and what its peers would have in their own recorders by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/flight/flight_calls.h"

namespace prism::launch {

// did[begin, begin + count) are the calls of the graph's iteration, over and over, from
// iteration[phase] on: the longest such run of the dump, the first of several, or the one from
// where it is said to begin. What came before is not of the iteration (set-up), or was overwritten,
// in part or whole; what comes after departs from it.
struct FlightMatch {
  std::vector<FlightCall> did;
  std::map<std::string, int64_t> unknown;  // entries of the dump that are left out, by name
  std::vector<FlightCall> iteration;
  size_t begin = 0;
  size_t count = 0;
  size_t phase = 0;
  size_t places = 1;  // phases that the run may begin at, as it matches all of them as long

  [[nodiscard]] size_t end() const { return begin + count; }
  [[nodiscard]] const FlightCall& expected() const {
    return iteration[(phase + count) % iteration.size()];
  }
};

// `begin`: the call of the dump that an iteration begins with, where that is known.
// kInvalidArgument where nothing in the dump is of the graph's iteration, or that holds no call.
Result<FlightMatch> MatchDump(const graph::Graph& graph,
                              Rank rank,
                              const FlightDump& dump,
                              std::optional<size_t> begin = {});

// Ranks that take part in the expected call, without `rank`; ascending.
std::vector<Rank> PeersOfExpected(const graph::Graph& graph, Rank rank, const FlightMatch& match);

// What `peer` shares with `rank`: the calls before the departure, as the dump has them, and the
// next of the graph that both take part in, scheduled. Stacks are not known. Shapes are
// those of the same call an iteration before; without one, of a vector as long.
FlightDump PeerDump(const graph::Graph& graph,
                    Rank rank,
                    const FlightDump& dump,
                    const FlightMatch& match,
                    Rank peer);

}  // namespace prism::launch
