#include "tests/fuzz/flight_input.h"

#include <string>

#include "graph/base/check.h"
#include "launch/analyse/flight/flight_match.h"
#include "tests/support/tiny_graph.h"

namespace prism::testing {

void TryFlightDump(std::string_view input) {
  const Result<launch::FlightDump> dump = launch::DecodeFlightDump(input, "fuzz input");
  if (!dump.ok()) {
    PRISM_CHECK(dump.status().code() == StatusCode::kBadFile);
    return;
  }
  const auto again = launch::DecodeFlightDump(launch::EncodeFlightDump(*dump), "own encoding");
  PRISM_CHECK_MSG(again.ok(), again.status().message());
  PRISM_CHECK(*again == *dump);
  static const graph::Graph graph = TinyGraph(
      {{Collective(0, 0, 10), Send(1, 1, 10)}, {Collective(0, 0, 10), Receive(1, 0, 10)}});
  if (const auto match = launch::MatchDump(graph, Rank(0), *dump); match.ok()) {
    launch::PeerDump(graph, Rank(0), *dump, *match, Rank(1));
  }
}

}  // namespace prism::testing
