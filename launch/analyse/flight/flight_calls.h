// NCCL calls in a form that both sides of a comparison share: the entries of a flight recorder, and
// what a rank does in the graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/graph.h"
#include "launch/analyse/flight/flight_dump.h"

namespace prism::launch {

// A send or a receive of the rank.
struct PeerMove {
  bool is_send = false;
  uint32_t peer = 0;  // rank of the job
  int64_t bytes = 0;

  auto operator<=>(const PeerMove&) const = default;
};

// One call; the sends and receives of one NCCL group count as one.
struct FlightCall {
  size_t first_entry = 0;  // in the dump: entries [first_entry, first_entry + entries)
  size_t entries = 0;
  uint32_t op = 0;  // of the graph
  // Null: sends and receives.
  std::optional<graph::CollectiveKind> kind = {};
  std::vector<uint16_t> slots = {};  // communicators of the rank that it may be on
  int64_t bytes = 0;                 // as CollectiveShape::bytes
  std::vector<PeerMove> moves = {};  // ascending
};

// Communicator slots of the rank with the group's members: only those of its name, if there are
// any.
std::vector<uint16_t> SlotsOfGroup(const graph::Graph& graph, Rank rank, const FlightGroup& group);

struct DumpCalls {
  std::vector<FlightCall> calls;
  std::map<std::string, int64_t> unknown;  // entries that are not NCCL calls, by name: "gloo:send"
};

// The calls of `rank`. A coalesced collective is one call per tensor.
DumpCalls CallsOfDump(const graph::Graph& graph, Rank rank, const FlightDump& dump);

// Of one iteration.
std::vector<FlightCall> CallsOfGraph(const graph::Graph& graph, Rank rank);

// Whether the call in the dump is the call in the graph. For NCCL, all_to_all, gather and scatter
// are groups of sends and receives: these are compared by the bytes sent, if at all.
bool SameCall(const FlightCall& of_dump, const FlightCall& of_graph);

// "Float": the name of a type in entries; "" for types that torch does not send.
std::string FlightTypeName(DataType type);

}  // namespace prism::launch
