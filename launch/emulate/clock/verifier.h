// Compares what a sandbox rank actually does, op by op, with its role's program in the graph, and
// tracks where in the graph it is.
//
// Kernels, copies, collectives and waits have to be equal. The following are not departures.
// Allocating or freeing device memory: the first iteration does it, a steady one does not. Host
// time that is not in the graph (a sleep): it is passed on. Host waits for an event, on either
// side: programs bound what they have in flight by asking first and waiting only for what is not
// complete; a wait that the graph lacks takes no time, one that only the graph has is replayed.
// Ranges that a program names, other than the iteration: a data loader opens one more where an
// epoch ends. Event records, since DistributedDataParallel times its first ten steps and every
// hundredth: a stream has to wait for the same point of another stream, through whichever record of
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/op_position.h"
#include "slicer/record/op_stream.h"

namespace prism::launch {

// Ids of a graph's signatures by content; built once per process.
class SignatureIndex {
 public:
  explicit SignatureIndex(const graph::Graph& graph);
  [[nodiscard]] std::optional<uint32_t> Find(const std::string& key) const;

 private:
  std::unordered_map<std::string, uint32_t> ids_;
};

enum class VerdictKind : uint8_t {
  kIgnored,   // not an op that counts
  kMatch,     // as the graph says
  kHostGap,   // host time that is not in the graph; position does not move
  kHostWait,  // the host waits for an event but not in the graph; position does not move
  kMismatch,  // the rank has departed
};

// Whether a rank that skips the op has not departed.
bool MayBeLeftOut(const graph::Graph& graph, const graph::Program& program, uint32_t op);

struct Verdict {
  VerdictKind kind = VerdictKind::kIgnored;
  DurationNs gap_ns = 0;
  std::string did;       // kMismatch: what the rank did, in words
  std::string expected;  // kMismatch: what the graph has there; "" past its end
};

class Verifier {
 public:
  // `graph` and `index` must outlive it.
  Verifier(const graph::Graph& graph, const SignatureIndex& index, Rank rank, int iterations);

  Verdict Check(const slicer::PlacedOp& placed, const slicer::OpStream& stream);

  // Whether a host wait that only the graph has was passed since the last call: the engine waits
  // there, so the rank's time is unknown until the engine reports it.
  [[nodiscard]] bool TakeLeftOutWait() { return std::exchange(left_out_wait_, false); }

  // Everything before this position has been issued.
  [[nodiscard]] replayer::OpPosition position() const;

  // Where the graph has the op of this iteration that the stream reported at `place`; null when it
  // has no such op.
  [[nodiscard]] std::optional<replayer::OpPosition> PositionOf(const slicer::OpPlace& place) const;

 private:
  void IndexRecords();
  void SkipUncounted();
  void NoteWaits(uint32_t begin, uint32_t end);
  [[nodiscard]] bool OnlyOptionalLeft() const;
  bool StartIteration(int32_t iteration);
  [[nodiscard]] uint32_t RecordHere(uint16_t stream) const;
  bool Matches(const slicer::CanonicalOp& op, const slicer::OpTables& tables);
  [[nodiscard]] bool SameDep(uint32_t live, uint32_t expected) const;
  bool FindMatch(const slicer::CanonicalOp& op, const slicer::OpTables& tables);
  bool SignatureMatches(uint32_t live, uint32_t expected, const slicer::OpTables& tables);
  bool CommunicatorMatches(uint16_t slot, const slicer::OpTables& tables);
  bool PeersMatch(const graph::PeerGroup& group, const slicer::OpTables& tables);
  Verdict Mismatch(const slicer::CanonicalOp& op, const slicer::OpTables& tables) const;

  const graph::Graph& graph_;
  const SignatureIndex& index_;
  Rank rank_;
  const graph::Program& program_;
  int iterations_;
  uint32_t cursor_ = 0;  // index of the next op in the role's program
  int32_t iteration_ = -1;
  bool left_out_wait_ = false;
  // Consecutive event records of a stream (no other op of the stream between them): by op of the
  // program, the first of them; and that first one by stream and number of other ops before it.
  std::vector<uint32_t> first_alike_;
  std::map<std::pair<uint16_t, uint32_t>, uint32_t> records_;
  std::map<uint16_t, uint32_t> issued_;  // by stream: ops of this iteration, without those records
  // By live index of the current iteration; kNoDep where the graph has no such op. For a record
  // that the graph lacks it is an equivalent one.
  std::vector<uint32_t> graph_index_;
  std::vector<std::optional<uint32_t>> signature_ids_;  // by live id, of the current iteration
  std::vector<bool> signature_known_;
};

}  // namespace prism::launch
