// NCCL calls as both sides of a comparison know them: what a flight recorder's entries asked for,
// and what the graph has a rank do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/graph.h"
#include "launch/flight/flight_dump.h"

namespace prism::launch {

// A send or a receive, as the rank has it.
struct PeerMove {
  bool is_send = false;
  uint32_t peer = 0;  // rank of the job
  int64_t bytes = 0;

  auto operator<=>(const PeerMove&) const = default;
};

// One call; sends and receives that are one NCCL group are one.
struct FlightCall {
  size_t first_entry = 0;  // of the dump: entries [first_entry, first_entry + entries)
  size_t entries = 0;
  uint32_t op = 0;  // of the graph
  // Nothing: sends and receives.
  std::optional<graph::CollectiveKind> kind = {};
  std::vector<uint16_t> slots = {};  // communicators of the rank that it may be on
  int64_t bytes = 0;                 // as CollectiveShape::bytes
  std::vector<PeerMove> moves = {};  // ascending
};

// Communicator slots of the rank with the group's members: those of its name, if there are such.
std::vector<uint16_t> SlotsOfGroup(const graph::Graph& graph, Rank rank, const FlightGroup& group);

struct DumpCalls {
  std::vector<FlightCall> calls;
  std::map<std::string, int64_t> unknown;  // entries that are no such call, by name: "gloo:send"
};

// Of `rank`. Of a coalesced collective: a call a tensor.
DumpCalls CallsOfDump(const graph::Graph& graph, Rank rank, const FlightDump& dump);

// Of one iteration.
std::vector<FlightCall> CallsOfGraph(const graph::Graph& graph, Rank rank);

// What the dump has is what the graph has. all_to_all, gather and scatter are groups of sends and
// receives to NCCL: the bytes sent decide, or nothing.
bool SameCall(const FlightCall& of_dump, const FlightCall& of_graph);

// "Float": the name that entries give a type; "" for those that torch does not send.
std::string FlightTypeName(graph::DataType type);

}  // namespace prism::launch
