#include "launch/emulate/clock/verifier.h"

#include <algorithm>

#include "graph/describe.h"

namespace prism::launch {
namespace {

using graph::OpKind;
using slicer::CanonicalOp;
using slicer::OpTables;

}  // namespace

SignatureIndex::SignatureIndex(const graph::Graph& graph) {
  for (uint32_t id = 0; id < graph.signatures.size(); ++id) {
    ids_.emplace(graph::SignatureKey(graph.signatures[id], graph.strings), id);
  }
}

std::optional<uint32_t> SignatureIndex::Find(const std::string& key) const {
  const auto found = ids_.find(key);
  return found == ids_.end() ? std::nullopt : std::optional<uint32_t>(found->second);
}

bool MayBeLeftOut(const graph::Graph& graph, const graph::Program& program, uint32_t op) {
  return program.kind[op] == OpKind::kEventSync || program.kind[op] == OpKind::kEventRecord ||
         slicer::MayComeAndGo(program.kind[op], program.signature[op], graph.strings);
}

Verifier::Verifier(const graph::Graph& graph,
                   const SignatureIndex& index,
                   Rank rank,
                   int iterations)
    : graph_(graph),
      index_(index),
      rank_(rank),
      program_(graph.role_of(rank).program),
      iterations_(iterations) {
  IndexRecords();
}

void Verifier::IndexRecords() {
  std::map<uint16_t, uint32_t> before;
  first_alike_.assign(program_.size(), graph::kNoDep);
  for (uint32_t op = 0; op < program_.size(); ++op) {
    const uint16_t stream = program_.stream[op];
    if (program_.kind[op] == OpKind::kEventRecord) {
      first_alike_[op] = records_.try_emplace({stream, before[stream]}, op).first->second;
    } else if (graph::HasStream(program_.kind[op])) {
      ++before[stream];
    }
  }
}

// An event record of the graph for everything issued to the stream so far; kNoDep if there is none.
uint32_t Verifier::RecordHere(uint16_t stream) const {
  const auto issued = issued_.find(stream);
  const auto record = records_.find({stream, issued == issued_.end() ? 0 : issued->second});
  return record == records_.end() ? graph::kNoDep : record->second;
}

replayer::OpPosition Verifier::position() const {
  if (iteration_ < 0) {
    return 0;
  }
  return int64_t{iteration_} * program_.size() + cursor_;
}

std::optional<replayer::OpPosition> Verifier::PositionOf(const slicer::OpPlace& place) const {
  if (place.iteration != iteration_ || place.index >= graph_index_.size() ||
      graph_index_[place.index] == graph::kNoDep) {
    return std::nullopt;
  }
  return int64_t{iteration_} * program_.size() + graph_index_[place.index];
}

void Verifier::SkipUncounted() {
  while (
      cursor_ < program_.size() &&
      slicer::MayComeAndGo(program_.kind[cursor_], program_.signature[cursor_], graph_.strings)) {
    ++cursor_;
  }
}

void Verifier::NoteWaits(uint32_t begin, uint32_t end) {
  for (uint32_t op = begin; op < end; ++op) {
    left_out_wait_ = left_out_wait_ || program_.kind[op] == OpKind::kEventSync;
  }
}

bool Verifier::OnlyOptionalLeft() const {
  uint32_t op = cursor_;
  while (op < program_.size() && MayBeLeftOut(graph_, program_, op)) {
    ++op;
  }
  return op == program_.size();
}

// False, and the rank's position unchanged, when the previous iteration has not ended.
bool Verifier::StartIteration(int32_t iteration) {
  SkipUncounted();
  if (iteration_ >= 0 && !OnlyOptionalLeft()) {
    return false;
  }
  if (iteration_ >= 0) {
    NoteWaits(cursor_, static_cast<uint32_t>(program_.size()));
  }
  iteration_ = iteration;
  cursor_ = 0;
  graph_index_.clear();
  issued_.clear();
  signature_ids_.clear();
  signature_known_.clear();
  return true;
}

Verdict Verifier::Check(const slicer::PlacedOp& placed, const slicer::OpStream& stream) {
  const CanonicalOp& op = placed.op;
  const OpTables& tables = stream.tables();
  if (placed.place.iteration != iteration_ && !StartIteration(placed.place.iteration)) {
    return Mismatch(op, tables);
  }
  graph_index_.push_back(graph::kNoDep);
  if (slicer::MayComeAndGo(op.kind, op.signature, tables.strings)) {
    return {};
  }
  SkipUncounted();
  const bool past_end = cursor_ == program_.size();
  const bool last = placed.place.iteration + 1 >= iterations_;
  if (past_end && last) {
    return {};  // the program takes itself down
  }
  Verdict verdict;
  verdict.kind = VerdictKind::kMatch;
  if (op.kind == OpKind::kHostGap) {
    const bool foreseen = !past_end && program_.kind[cursor_] == OpKind::kHostGap;
    const DurationNs planned = foreseen ? program_.value[cursor_] : 0;
    verdict.gap_ns = std::max<DurationNs>(op.value - planned, 0);
    if (!foreseen) {
      verdict.kind = VerdictKind::kHostGap;
      return verdict;
    }
  } else if (!FindMatch(op, tables)) {
    if (last && OnlyOptionalLeft()) {
      return {};  // likewise
    }
    if (op.kind == OpKind::kEventRecord) {
      graph_index_.back() = RecordHere(op.stream);
      return {};
    }
    if (op.kind != OpKind::kEventSync) {
      return Mismatch(op, tables);
    }
    verdict.kind = VerdictKind::kHostWait;
    return verdict;
  }
  graph_index_.back() = cursor_;
  ++cursor_;
  if (op.kind != OpKind::kEventRecord && graph::HasStream(op.kind)) {
    ++issued_[op.stream];
  }
  return verdict;
}

// Moves to the op in the graph, skipping event records and host waits that this rank did not need.
// False: it is not the next op; the position is unchanged.
bool Verifier::FindMatch(const CanonicalOp& op, const OpTables& tables) {
  const uint32_t begin = cursor_;
  for (; cursor_ < program_.size(); ++cursor_) {
    if (Matches(op, tables)) {
      NoteWaits(begin, cursor_);
      return true;
    }
    if (!MayBeLeftOut(graph_, program_, cursor_)) {
      break;
    }
  }
  cursor_ = begin;
  return false;
}

bool Verifier::Matches(const CanonicalOp& op, const OpTables& tables) {
  // On a real GPU an op of the graph may have got a time of its own.
  const int differing = (op.flags ^ program_.flags[cursor_]) & ~graph::kDurationFixed;
  if (op.kind != program_.kind[cursor_] || differing != 0 ||
      op.stream != program_.stream[cursor_] || op.comm_slot != program_.comm_slot[cursor_]) {
    return false;
  }
  if (!SameDep(op.dep, program_.dep[cursor_])) {
    return false;
  }
  const uint32_t expected = program_.signature[cursor_];
  switch (op.kind) {
    case OpKind::kKernel:
      return SignatureMatches(op.signature, expected, tables);
    case OpKind::kMarker:
      return tables.strings[op.signature] == graph_.strings[expected];
    case OpKind::kCollective:
      return tables.collectives[op.signature] == program_.collectives[expected] &&
             CommunicatorMatches(op.comm_slot, tables);
    case OpKind::kPeerGroup:
      return tables.peer_groups[op.signature] == program_.peer_groups[expected] &&
             PeersMatch(tables.peer_groups[op.signature], tables);
    case OpKind::kMemcpy:
    case OpKind::kMemset:
      return op.value == program_.value[cursor_];
    default:
      return true;
  }
}

// Whether op `live` of this iteration records what op `expected` of the graph does.
bool Verifier::SameDep(uint32_t live, uint32_t expected) const {
  if (live == graph::kNoDep || expected == graph::kNoDep) {
    return live == expected;
  }
  const uint32_t recorded = graph_index_[live];
  return recorded != graph::kNoDep && first_alike_[recorded] == first_alike_[expected];
}

bool Verifier::SignatureMatches(uint32_t live, uint32_t expected, const OpTables& tables) {
  if (live >= signature_ids_.size()) {
    signature_ids_.resize(live + 1);
    signature_known_.resize(live + 1, false);
  }
  if (!signature_known_[live]) {
    signature_known_[live] = true;
    signature_ids_[live] =
        index_.Find(graph::SignatureKey(tables.signatures[live], tables.strings));
  }
  return signature_ids_[live] == expected;
}

bool Verifier::CommunicatorMatches(uint16_t slot, const OpTables& tables) {
  const slicer::RecordedCommunicator& live = tables.comm_slots[slot];
  const auto members = graph_.communicators.members_of(CommId(graph_.ranks.comms(rank_)[slot]));
  if (!live.members_known) {
    return static_cast<size_t>(live.size) == members.size();
  }
  // Groups name their members in ascending order; where one does not, sizes have to do.
  return std::equal(live.members.begin(), live.members.end(), members.begin(), members.end(),
                    [](Rank a, uint32_t b) { return a.value() == b; }) ||
         (!std::is_sorted(live.members.begin(), live.members.end()) &&
          live.members.size() == members.size());
}

bool Verifier::PeersMatch(const graph::PeerGroup& group, const OpTables& tables) {
  const auto peers = graph_.ranks.peers(rank_);
  return std::all_of(group.transfers.begin(), group.transfers.end(), [&](const auto& transfer) {
    return tables.peer_slots[transfer.peer_slot].value() == peers[transfer.peer_slot];
  });
}

Verdict Verifier::Mismatch(const CanonicalOp& op, const OpTables& tables) const {
  Verdict verdict;
  verdict.kind = VerdictKind::kMismatch;
  const std::string did = slicer::DescribeOp(op, tables);
  verdict.did = graph::WithoutTemplates(did);
  if (cursor_ < program_.size()) {
    const std::string expected = graph::DescribeRankOp(graph_, rank_, cursor_);
    verdict.expected = graph::WithoutTemplates(expected);
    if (verdict.expected.ends_with(verdict.did)) {  // they differ in what was left out
      verdict.did = did;
      verdict.expected = expected;
    }
  }
  return verdict;
}

}  // namespace prism::launch
