// Channel records → canonical ops, one at a time.
//
// An op is canonical if it says what a rank did and nothing about the process that did it: no
// addresses, no handles, no ids that depend on what happened before. For this every numbering
// (streams, communicator slots, peer slots, signatures, strings) restarts with each iteration and
// counts by first use, so two iterations, or two processes, that do the same give equal ops and
// equal tables. The recorder builds a fragment from them; the launcher uses them to compare a
// running sandbox rank with the graph.
//
// An iteration lasts from one beginning to the next (iteration_rule.h); if the program does not
// mark iterations itself, a marker "iteration" is inserted. Ops before the first are not part of
// any program and are not reported; definitions and communicators are still tracked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/program/op.h"
#include "graph/program/signature.h"
#include "shim/channel/messages.h"
#include "slicer/record/definitions.h"
#include "slicer/record/iteration_rule.h"
#include "slicer/record/late_waits.h"
#include "slicer/record/op_tables.h"

namespace prism::slicer {

// The position of an op: iterations count from 0, ops from 0 within their iteration.
struct OpPlace {
  int32_t iteration = -1;
  uint32_t index = 0;

  bool operator==(const OpPlace&) const = default;
};

struct PlacedOp {
  OpPlace place;
  CanonicalOp op;
  bool waits_late = false;  // for communication of an earlier iteration (late_waits.h)
};

class OpStream {
 public:
  // `self`: the global rank of the process; its position in each communicator is checked. The first
  // `skipped` iterations count as before the first; `steps` as for IterationRule.
  explicit OpStream(Rank self, int32_t skipped = 0, int32_t steps = 1)
      : self_(self), rule_(steps), iteration_(-1 - skipped) {}

  // Takes one record and returns the ops that it completes (none for most kinds that are not ops;
  // several if a group ends). The view is valid until the next call. Fails on a stream that
  // violates the protocol.
  Result<std::span<const PlacedOp>> Push(const channel::Record& record,
                                         std::span<const std::byte> payload);

  // The ops that `times` more rounds like `last`, the latest ops, would have completed; `before`
  // are those of the round before it, in which numbers within names show how these go on. What
  // follows counts the rounds as issued.
  Result<std::span<const PlacedOp>> Repeat(std::span<const CanonicalOp> before,
                                           std::span<const CanonicalOp> last,
                                           int32_t times);

  // Counts once more what this collective of a backward pass sums.
  Status AddBackwardSum(const channel::Record& record);

  // The current iteration's tables.
  [[nodiscard]] const OpTables& tables() const { return tables_; }

  // The tables of the previous iteration, complete.
  [[nodiscard]] const OpTables& previous_tables() const { return previous_tables_; }

  // Negative before the first iteration that is not skipped.
  [[nodiscard]] int32_t iteration() const { return iteration_; }

  // False before the first op of an iteration and after its end marker.
  [[nodiscard]] bool inside_iteration() const { return inside_; }

  // False if iterations begin with something other than their own range.
  [[nodiscard]] bool marked_by_program() const { return rule_.marked_by_program(); }

  // From now on the beginning of iterations is settled: a later range does not change it.
  void SettleRule() { rule_.Settle(); }

  // What begins an iteration of this program, in words; "" before the first.
  [[nodiscard]] const std::string& iteration_begin() const { return rule_.description(); }

  [[nodiscard]] const Definitions& definitions() const { return definitions_; }

  // A communicator as the process created it, by its id; null if it created none.
  [[nodiscard]] const RecordedCommunicator* communicator(uint32_t comm) const {
    const auto found = communicators_.find(comm);
    return found == communicators_.end() ? nullptr : &found->second;
  }

 private:
  // What identifies a kernel signature, in the process's ids: equal keys mean equal signatures.
  using SignatureKey = std::array<uint32_t, 13>;

  struct SignatureKeyHash {
    size_t operator()(const SignatureKey& key) const;
  };

  struct PendingTransfer {
    uint16_t stream = 0;  // of the record, not canonical yet
    channel::PeerTransferBody body = {};
  };

  void StartIteration();
  Status BeginBefore();
  Status AddOp(CanonicalOp op);
  Status PushDefinition(const channel::Record& record, std::span<const std::byte> payload);
  Status PushOp(const channel::Record& record);
  Status PushCommInit(const channel::CommInitBody& body, std::span<const std::byte> payload);
  Status PushCommName(const channel::CommNameBody& body);
  Status PushKernel(const channel::Record& record);
  Status PushCopy(const channel::Record& record);
  Status PushHostGap(const channel::Record& record);
  Status PushEvent(const channel::Record& record);
  Status PushSync(const channel::Record& record);
  Status PushCollective(const channel::Record& record);
  Status PushGroupEnd(const channel::Record& record);
  Status PushMarker(const channel::Record& record);
  Status AddMarker(const std::string& name, bool begin);

  Result<uint32_t> SignatureOf(const SignatureKey& key, const graph::KernelSignature& shape);
  Result<graph::PeerTransfer> TransferOf(const channel::PeerTransferBody& body);
  Result<uint16_t> CommSlotOf(uint32_t comm);
  uint16_t PeerSlotOf(Rank peer);
  uint16_t StreamOf(uint16_t stream);
  uint32_t StringOf(const std::string& text);
  uint32_t DepOf(uint32_t event) const;

  Rank self_;
  IterationRule rule_;
  Definitions definitions_;
  std::map<uint32_t, RecordedCommunicator> communicators_;  // by comm id
  std::unordered_map<uint32_t, OpPlace> events_;            // by event id
  LateWaits late_waits_;
  std::map<uint16_t, std::vector<PendingTransfer>> pending_;  // by thread
  int32_t iteration_;
  bool inside_ = false;
  uint32_t next_index_ = 0;
  std::optional<uint16_t> forward_thread_;  // that multiplied last outside of a backward pass
  uint8_t launch_flags_ = 0;                // graph::OpFlag bits given by the record being pushed
  std::vector<PlacedOp> completed_;         // by the record being pushed

  // Numbering of the current iteration.
  OpTables tables_;
  OpTables previous_tables_;
  std::map<uint16_t, uint16_t> streams_;
  std::map<uint32_t, uint16_t> comm_slots_;
  std::map<Rank, uint16_t> peer_slots_;
  std::unordered_map<std::string, uint32_t> strings_;
  std::unordered_map<SignatureKey, uint32_t, SignatureKeyHash> signatures_;
};

}  // namespace prism::slicer
