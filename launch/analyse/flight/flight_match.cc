#include "launch/analyse/flight/flight_match.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace prism::launch {
namespace {

using graph::CollectiveKind;

size_t RunLength(const FlightMatch& match, size_t from, size_t phase) {
  size_t length = 0;
  while (from + length < match.did.size() &&
         SameCall(match.did[from + length],
                  match.iteration[(phase + length) % match.iteration.size()])) {
    ++length;
  }
  return length;
}

void Consider(size_t from, size_t phase, FlightMatch* match) {
  const size_t length = RunLength(*match, from, phase);
  if (length > match->count) {
    match->begin = from;
    match->phase = phase;
    match->count = length;
    match->places = 1;
  } else if (length == match->count && from == match->begin) {
    ++match->places;
  }
}

// The recorder keeps the latest entries: a dump may begin anywhere in an iteration, even inside a
// group of sends and receives, whose remainder then matches no call. If the dump still contains
// set-up, an iteration begins somewhere in it.
void FindRun(FlightMatch* match) {
  const size_t torn = !match->did.empty() && !match->did.front().kind ? 1 : 0;
  for (size_t from = 0; from <= torn; ++from) {
    for (size_t phase = 0; phase < match->iteration.size(); ++phase) {
      Consider(from, phase, match);
    }
  }
  for (size_t at = torn + 1; at + match->count < match->did.size(); ++at) {
    Consider(at, 0, match);
  }
}

std::string CollectiveEntryName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "nccl:_all_gather_base";
    case CollectiveKind::kReduceScatter:
      return "nccl:_reduce_scatter_base";
    default:
      return fmt::format("nccl:{}", graph::CollectiveKindName(kind));
  }
}

// Makes the entries of one peer.
class PeerWriter {
 public:
  PeerWriter(const graph::Graph& graph, Rank rank, const FlightDump& dump, Rank peer)
      : graph_(graph), rank_(rank), dump_(dump), peer_(peer) {
    out_.version = dump.version;
    for (const auto& [name, group] : dump.groups) {
      if (std::ranges::find(group.ranks, peer) != group.ranks.end()) {
        out_.groups[name] = group;
      }
    }
  }

  // Copies a call of the dump if the peer has it as well. False: the peer does not have it.
  bool Copy(const FlightCall& call) {
    bool shared = false;
    for (size_t i = call.first_entry; i < call.first_entry + call.entries; ++i) {
      const FlightEntry& entry = dump_.entries[i];
      if (!out_.groups.contains(entry.group)) {
        return false;
      }
      if (IsPeerEntry(entry)) {
        shared = CopyPeerEntry(entry) || shared;
      } else if (call.kind || shared) {
        Add(entry);
        shared = true;
      }
    }
    return shared;
  }

  // Adds a call from that of the previous iteration in the dump.
  bool Repeat(const FlightCall& before) {
    const size_t first = out_.entries.size();
    if (!Copy(before)) {
      return false;
    }
    Renumber(first);
    return true;
  }

  // Adds a call of the graph that the dump does not have.
  bool Make(const FlightCall& call) {
    if (!call.kind) {
      return false;  // its group is not known
    }
    for (const auto& [name, group] : out_.groups) {
      const std::vector<uint16_t> slots = SlotsOfGroup(graph_, rank_, group);
      if (std::ranges::find(slots, call.slots.front()) == slots.end()) {
        continue;
      }
      FlightEntry entry = EntryOf(call, static_cast<int64_t>(group.ranks.size()));
      entry.group = name;
      out_.entries.push_back(std::move(entry));
      Renumber(out_.entries.size() - 1);
      return true;
    }
    return false;
  }

  FlightDump Take() { return std::move(out_); }

 private:
  void Add(FlightEntry entry) {
    entry.frames.clear();
    out_.entries.push_back(std::move(entry));
  }

  // A send of one is a receive of the other.
  bool CopyPeerEntry(const FlightEntry& entry) {
    const std::vector<Rank>& ranks = out_.groups.at(entry.group).ranks;
    const auto index_of = [&](Rank rank) { return std::ranges::find(ranks, rank) - ranks.begin(); };
    const bool is_send = IsSendEntry(entry);
    const auto name = [&](bool send, Rank here, Rank there) {
      return fmt::format("nccl:{} {}{}{}", send ? "send" : "recv", index_of(here),
                         send ? "->" : "<-", index_of(there));
    };
    if (entry.name != name(is_send, rank_, peer_)) {
      return false;
    }
    FlightEntry mirrored = entry;
    mirrored.name = name(!is_send, peer_, rank_);
    Add(std::move(mirrored));
    return true;
  }

  [[nodiscard]] FlightEntry EntryOf(const FlightCall& call, int64_t ranks) const {
    const graph::Program& program = graph_.role_of(rank_).program;
    const graph::CollectiveShape& shape = program.collectives[program.signature[call.op]];
    const int64_t element = std::max<int64_t>(1, DataTypeBytes(shape.dtype));
    const int64_t whole = shape.bytes / element;
    FlightEntry entry;
    entry.name = CollectiveEntryName(shape.kind);
    const std::string type = FlightTypeName(shape.dtype);
    const bool gathers = shape.kind == CollectiveKind::kAllGather;
    const bool scatters = shape.kind == CollectiveKind::kReduceScatter;
    entry.input = {{{gathers ? whole / ranks : whole}}, {type}};
    entry.output = {{{scatters ? whole / ranks : whole}}, {type}};
    return entry;
  }

  // Numbers the entries from `first` on after those that the peer has of that group.
  void Renumber(size_t first) {
    FlightEntry before;
    for (size_t i = 0; i < first; ++i) {
      before = out_.entries[i].group == out_.entries[first].group ? out_.entries[i] : before;
    }
    const int64_t record = first == 0 ? 0 : out_.entries[first - 1].record_id + 1;
    const bool peers = IsPeerEntry(out_.entries[first]);
    for (size_t i = first; i < out_.entries.size(); ++i) {
      FlightEntry& entry = out_.entries[i];
      entry.record_id = record + static_cast<int64_t>(i - first);
      entry.collective_seq_id = before.collective_seq_id + (peers ? 0 : 1);
      entry.p2p_seq_id = before.p2p_seq_id + (peers ? 1 : 0);
      entry.op_id = before.op_id + 1 + static_cast<int64_t>(i - first);
      entry.created_ns = before.created_ns;
      entry.state = "scheduled";
    }
  }

  const graph::Graph& graph_;
  Rank rank_;
  const FlightDump& dump_;
  Rank peer_;
  FlightDump out_;
};

}  // namespace

Result<FlightMatch> MatchDump(const graph::Graph& graph,
                              Rank rank,
                              const FlightDump& dump,
                              std::optional<size_t> begin) {
  DumpCalls calls = CallsOfDump(graph, rank, dump);
  FlightMatch match;
  match.did = std::move(calls.calls);
  match.unknown = std::move(calls.unknown);
  match.iteration = CallsOfGraph(graph, rank);
  if (match.iteration.empty()) {
    return InvalidArgument(fmt::format("rank {} of the graph makes no NCCL calls", rank.value()));
  }
  if (begin) {
    Consider(std::min(*begin, match.did.size()), 0, &match);
  } else {
    FindRun(&match);
  }
  const bool overwritten = !dump.entries.empty() && dump.entries.front().record_id > 0;
  if (!overwritten && match.begin == 0 && match.phase == 0) {
    match.places = 1;  // the process began with an iteration
  }
  if (match.count == 0) {
    return InvalidArgument(
        fmt::format("none of the {} calls in the dump is a call of rank {} in the graph; check "
                    "that rank (--rank R), graph and --begin N fit the dump",
                    match.did.size(), rank.value()));
  }
  return match;
}

std::vector<Rank> PeersOfExpected(const graph::Graph& graph, Rank rank, const FlightMatch& match) {
  const FlightCall& call = match.expected();
  std::vector<Rank> peers;
  if (call.kind) {
    const CommId comm(graph.ranks.comms(rank)[call.slots.front()]);
    for (const uint32_t member : graph.communicators.members_of(comm)) {
      peers.emplace_back(member);
    }
  }
  for (const PeerMove& move : call.moves) {
    peers.emplace_back(move.peer);
  }
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  std::erase(peers, rank);
  return peers;
}

FlightDump PeerDump(const graph::Graph& graph,
                    Rank rank,
                    const FlightDump& dump,
                    const FlightMatch& match,
                    Rank peer) {
  PeerWriter writer(graph, rank, dump, peer);
  for (size_t i = 0; i < match.end(); ++i) {
    // One entry of a coalesced collective becomes several calls.
    if (i == 0 || match.did[i].first_entry != match.did[i - 1].first_entry) {
      writer.Copy(match.did[i]);
    }
  }
  const size_t period = match.iteration.size();
  for (size_t ahead = 0; ahead < period; ++ahead) {
    const size_t at = match.end() + ahead;
    const bool known = at >= match.begin + period && at - period < match.end();
    if (known ? writer.Repeat(match.did[at - period])
              : writer.Make(match.iteration[(match.phase + match.count + ahead) % period])) {
      break;
    }
  }
  return writer.Take();
}

}  // namespace prism::launch
