// What the absent members of one communicator send to this rank, and what this rank sends to them.
//
// While recording, small values that this rank sends (as the root of a broadcast or scatter, as a
// sender, or as a part of a reduction or gathering) go to the worker. Ranks that run later get a
// book of them (environment PRISM_VALUES, a path, and PRISM_VALUES_BYTES, how much of it) and
// receive, in place of an absent root or sender, what a recorded one sent (channel/value_book.h).
// Bytes that not even the root had, because kernels would have written them, are never written here
// either. If the book has no entry:
//
// - a broadcast or scatter leaves the output unchanged, zeros where nothing was ever written;
// - a receive of integers gets what this rank last sent in the communicator, in as many bytes of
//   the same type: shapes and counts are the same in both directions of a pipeline;
// - any other receive gets normals of mean 0 and scale 1/sqrt(elements), so that its norm is about
//   one, seeded by job and call; above kSmallSlotBytes it gets zeros, above kSmallTransferBytes it
//   becomes never written.
//
// To reductions and gatherings an absent member contributes what it did when it was recorded, else
// what the nearest known member does (exchange.h).
//
// Counted: "values_replayed" (from that very root or sender), "values_of_peer_role" (from one with
// the same place elsewhere), "absent_root_broadcast" (nothing recorded), "absent_root_large"
// (larger than what is kept), "virtual_recv_mirrored", "virtual_recv", "values_beyond_limit" (sent,
// but too large in total to keep), "gathered_objects_repeated" (bytes of absent members in an
// all_gather or gather, which are those of a present one).
//
// Integers, of which programs make shapes, counts and objects, steer it: when they are not those of
// the very root or sender, or that one was steered by such integers itself, the worker is told
// (RecordKind::kGuess). If the program then fails, that rank is recorded first
// (launch/emulate/run/recorded_slice.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "shim/channel/messages.h"
#include "shim/channel/value_book.h"
#include "shim/nccl/exchange.h"
#include "shim/nccl/membership.h"

namespace prism::shim {

class AbsentMembers {
 public:
  // Call once, before the first call. Members need not be known. `place`: GroupInfo::place.
  void Describe(const Membership& members, int32_t size, uint64_t place = 0);

  // Call before a collective: keeps what this rank sends as its root; if the root is absent,
  // provides the output and makes the lowest present member the root of a broadcast.
  void BeforeCollective(ExchangeOperation operation,
                        ExchangeCall* call,
                        const void** send,
                        void* recv,
                        Memory* memory);

  // The same for a broadcast that is part of an all_gather, to which this rank contributes `send`:
  // what an absent root contributes is written (true: nothing is left to do), or a present member
  // is made the root in its place.
  bool BeforeGathering(ExchangeCall* call, const void* send, void* recv, Memory* memory);

  // Does all of a send to, or a receive from, an absent member; of a send to a present one what
  // concerns absent ones: it is kept.
  void Send(const ExchangeCall& call, const void* send, Memory* memory);
  void Receive(const ExchangeCall& call, void* recv, Memory* memory);

 private:
  // But for its sequence.
  [[nodiscard]] channel::ValueHead HeadOf(ExchangeOperation operation,
                                          const ExchangeCall& call) const;
  void Provide(const channel::ValueHead& head,
               const ExchangeCall& call,
               void* recv,
               Memory* memory);
  [[nodiscard]] std::optional<channel::ValueHead> ContributionOf(ExchangeOperation operation,
                                                                 const ExchangeCall& call) const;
  // Those of absent members, to `call->recorded`.
  void FindContributions(const channel::ValueHead& head, ExchangeCall* call);
  void JoinContributions(ExchangeOperation operation,
                         ExchangeCall* call,
                         const void* send,
                         Memory* memory);
  static void CountObjects(const ExchangeCall& call, const void* send, Memory* memory);
  void TellGuess(const channel::ValueHead& head,
                 const ExchangeCall& call,
                 const channel::FoundValue& found);
  bool Mirror(const ExchangeCall& call, void* recv, Memory* memory);

  Membership members_;
  uint64_t shape_ = 0;  // ValueHead's
  uint32_t place_ = 0;
  std::mutex mutex_;
  // Calls so far, by operation and root. Other collectives are not counted: pipeline stages have
  // different ones in between.
  std::map<std::pair<ExchangeOperation, int32_t>, uint32_t> rooted_;
  // ValueHead's sequence, operation and bytes of the call that contributions were last found for.
  std::optional<std::tuple<uint32_t, uint8_t, uint32_t>> found_;
  std::vector<Contribution> recorded_;         // of that call
  std::deque<std::vector<std::byte>> padded_;  // likewise: recorded ones of another size
  std::map<int32_t, uint32_t> sent_;           // messages so far, by peer
  std::map<int32_t, uint32_t> received_;
  std::set<std::pair<int32_t, bool>>
      guessed_;  // producers that the worker was told of; speculative?
  std::map<std::pair<size_t, Element>, std::vector<std::byte>> last_sent_;  // by bytes and type
};

// A send or receive of a communicator, whose absent members are `absent`.
struct MemberTransfer {
  AbsentMembers* absent = nullptr;
  bool is_send = false;
  ExchangeTransfer transfer;
};

// Handles those with absent peers; returns the others.
std::vector<ExchangeTransfer> RunWithAbsent(std::span<const MemberTransfer> transfers,
                                            Memory* memory);

// Sends and receives at once, with present and absent members.
ExchangeStatus RunTransfers(std::span<const MemberTransfer> transfers,
                            Exchange* exchange,
                            Memory* memory);

}  // namespace prism::shim
