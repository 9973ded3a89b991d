#include "launch/analyse/flight/flight_calls.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "graph/base/parse_number.h"
#include "graph/program/collective_kinds.h"

namespace prism::launch {
namespace {

using graph::CollectiveKind;

constexpr std::string_view kBackend = "nccl:";
constexpr std::string_view kCoalesced = "_coalesced";
constexpr std::string_view kGroupEnd = "nccl:coalesced";  // closes sends and receives

// Names that ProcessGroupNCCL gives besides graph::kCollectiveKindNames.
constexpr std::pair<std::string_view, CollectiveKind> kKinds[] = {
    {"all_reduce_barrier", CollectiveKind::kAllReduce},
    {"allreduce_coalesced", CollectiveKind::kAllReduce},
    {"_all_gather_base", CollectiveKind::kAllGather},
    {"all_gather_into_tensor_coalesced", CollectiveKind::kAllGather},
    {"ALLGATHER_coalesced", CollectiveKind::kAllGather},
    {"_reduce_scatter_base", CollectiveKind::kReduceScatter},
    {"reduce_scatter_tensor_coalesced", CollectiveKind::kReduceScatter},
    {"REDUCE_SCATTER_coalesced", CollectiveKind::kReduceScatter},
    {"_broadcast_oop", CollectiveKind::kBroadcast},
    {"_reduce_oop", CollectiveKind::kReduce},
};

// toString of c10::ScalarType.
constexpr std::pair<std::string_view, DataType> kTypes[] = {
    {"Bool", DataType::kBool},
    {"Char", DataType::kInt8},
    {"Byte", DataType::kUint8},
    {"Short", DataType::kInt16},
    {"Int", DataType::kInt32},
    {"Long", DataType::kInt64},
    {"Float8_e4m3fn", DataType::kFloat8},
    {"Float8_e5m2", DataType::kFloat8},
    {"Half", DataType::kFloat16},
    {"BFloat16", DataType::kBfloat16},
    {"Float", DataType::kFloat32},
    {"Double", DataType::kFloat64},
};

std::optional<CollectiveKind> KindOf(std::string_view name) {
  if (!name.starts_with(kBackend)) {
    return std::nullopt;
  }
  name.remove_prefix(kBackend.size());
  for (const auto& [text, kind] : kKinds) {
    if (name == text) {
      return kind;
    }
  }
  return ValueNamed(graph::kCollectiveKindNames, name);
}

// -1 if the type is unknown or the size impossible.
int64_t TensorBytes(const FlightTensors& tensors, size_t index) {
  int64_t bytes = -1;
  for (const auto& [name, type] : kTypes) {
    bytes = name == tensors.types[index] ? DataTypeBytes(type) : bytes;
  }
  for (const int64_t extent : tensors.sizes[index]) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return -1;
    }
  }
  return bytes;
}

int64_t AllBytes(const FlightTensors& tensors) {
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.sizes.size(); ++i) {
    const int64_t tensor = TensorBytes(tensors, i);
    if (tensor < 0 || __builtin_add_overflow(bytes, tensor, &bytes)) {
      return -1;
    }
  }
  return bytes;
}

// Reads a dump's entries in order.
class DumpReader {
 public:
  DumpReader(const graph::Graph& graph, Rank rank, const FlightDump& dump) : dump_(dump) {
    for (const auto& [name, group] : dump.groups) {
      slots_[name] = SlotsOfGroup(graph, rank, group);
    }
  }

  DumpCalls Read() {
    for (size_t i = 0; i < dump_.entries.size(); ++i) {
      const FlightEntry& entry = dump_.entries[i];
      if (IsPeerEntry(entry)) {
        i = ReadPeers(i);
      } else if (const auto kind = KindOf(entry.name)) {
        ReadCollective(i, *kind);
      } else if (entry.name != kGroupEnd) {
        ++out_.unknown[entry.name.substr(0, entry.name.find(' '))];
      }
    }
    return std::move(out_);
  }

 private:
  void ReadCollective(size_t index, CollectiveKind kind) {
    const FlightEntry& entry = dump_.entries[index];
    FlightCall call;
    call.first_entry = index;
    call.entries = 1;
    call.kind = kind;
    call.slots = slots_.at(entry.group);
    if (!entry.name.ends_with(kCoalesced)) {
      const int64_t sent = AllBytes(entry.input);
      call.bytes =
          kind == CollectiveKind::kAllToAll ? sent : std::max(sent, AllBytes(entry.output));
      out_.calls.push_back(std::move(call));
      return;
    }
    for (size_t i = 0; i < std::min(entry.input.sizes.size(), entry.output.sizes.size()); ++i) {
      call.bytes = std::max(TensorBytes(entry.input, i), TensorBytes(entry.output, i));
      out_.calls.push_back(call);
    }
  }

  // The sends and receives of a group are one call if an entry closes them (it is kept with them);
  // else each is a separate call. Returns the last entry read.
  size_t ReadPeers(size_t first) {
    size_t end = first;
    while (end < dump_.entries.size() && IsPeerEntry(dump_.entries[end]) &&
           dump_.entries[end].group == dump_.entries[first].group &&
           dump_.entries[end].p2p_seq_id == dump_.entries[first].p2p_seq_id) {
      ++end;
    }
    const bool closed = end < dump_.entries.size() && dump_.entries[end].name == kGroupEnd &&
                        dump_.entries[end].group == dump_.entries[first].group;
    if (!closed) {
      end = first + 1;
    }
    FlightCall call;
    call.first_entry = first;
    call.entries = end - first + (closed ? 1 : 0);
    for (size_t i = first; i < end; ++i) {
      call.moves.push_back(MoveOf(dump_.entries[i]));
    }
    std::ranges::sort(call.moves);
    out_.calls.push_back(std::move(call));
    return first + out_.calls.back().entries - 1;
  }

  // "nccl:send 0->1", "nccl:recv 0<-1": the peer comes last, as rank of the group.
  [[nodiscard]] PeerMove MoveOf(const FlightEntry& entry) const {
    PeerMove move;
    move.is_send = IsSendEntry(entry);
    move.bytes = AllBytes(move.is_send ? entry.input : entry.output);
    const size_t arrow = entry.name.find_first_of("<-", kBackend.size());
    const std::vector<Rank>& ranks = dump_.groups.at(entry.group).ranks;
    uint32_t peer = std::numeric_limits<uint32_t>::max();
    if (arrow != std::string::npos) {
      ParseNumber(std::string_view(entry.name).substr(std::min(arrow + 2, entry.name.size())),
                  &peer);
    }
    move.peer = peer < ranks.size() ? ranks[peer].value() : peer;
    return move;
  }

  const FlightDump& dump_;
  std::map<std::string, std::vector<uint16_t>> slots_;
  DumpCalls out_;
};

}  // namespace

std::vector<uint16_t> SlotsOfGroup(const graph::Graph& graph, Rank rank, const FlightGroup& group) {
  std::vector<uint32_t> members;
  for (const Rank member : group.ranks) {
    members.push_back(member.value());
  }
  std::ranges::sort(members);
  std::vector<uint16_t> alike;
  std::vector<uint16_t> named;
  const auto comms = graph.ranks.comms(rank);
  for (uint16_t slot = 0; slot < comms.size(); ++slot) {
    const auto have = graph.communicators.members_of(CommId(comms[slot]));
    if (!std::equal(have.begin(), have.end(), members.begin(), members.end())) {
      continue;
    }
    alike.push_back(slot);
    if (graph.strings[graph.communicators.name[comms[slot]]] == group.description) {
      named.push_back(slot);
    }
  }
  return named.empty() ? alike : named;
}

DumpCalls CallsOfDump(const graph::Graph& graph, Rank rank, const FlightDump& dump) {
  return DumpReader(graph, rank, dump).Read();
}

std::vector<FlightCall> CallsOfGraph(const graph::Graph& graph, Rank rank) {
  const graph::Program& program = graph.role_of(rank).program;
  std::vector<FlightCall> calls;
  for (uint32_t op = 0; op < program.size(); ++op) {
    FlightCall call;
    call.op = op;
    if (program.kind[op] == graph::OpKind::kCollective) {
      const graph::CollectiveShape& shape = program.collectives[program.signature[op]];
      call.kind = shape.kind;
      call.slots = {program.comm_slot[op]};
      call.bytes = shape.bytes;
    } else if (program.kind[op] == graph::OpKind::kPeerGroup) {
      for (const auto& transfer : program.peer_groups[program.signature[op]].transfers) {
        call.moves.push_back(
            {transfer.is_send, graph.ranks.peers(rank)[transfer.peer_slot], transfer.bytes});
      }
      std::ranges::sort(call.moves);
    } else {
      continue;
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

bool SameCall(const FlightCall& of_dump, const FlightCall& of_graph) {
  if (!of_dump.kind) {
    return !of_graph.kind && of_dump.moves == of_graph.moves;
  }
  if (!of_graph.kind) {
    int64_t sent = 0;
    for (const PeerMove& move : of_graph.moves) {
      sent += move.is_send ? move.bytes : 0;
    }
    const bool by_bytes = of_dump.kind == CollectiveKind::kAllToAll && of_dump.bytes == sent;
    return by_bytes || of_dump.kind == CollectiveKind::kGather ||
           of_dump.kind == CollectiveKind::kScatter;
  }
  return of_dump.kind == of_graph.kind && of_dump.bytes == of_graph.bytes &&
         std::ranges::find(of_dump.slots, of_graph.slots.front()) != of_dump.slots.end();
}

std::string FlightTypeName(DataType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) {
      return std::string(name);
    }
  }
  return {};
}

}  // namespace prism::launch
