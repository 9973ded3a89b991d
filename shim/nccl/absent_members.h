// What the absent members of one communicator give to this rank, and what this rank gives to them.
//
// While recording, small values that this rank gives (as the root of a broadcast or scatter, as a
// sender) go to the worker. Ranks that run later get a book of them (environment PRISM_VALUES, a
// path, and PRISM_VALUES_BYTES, how much of it) and are told in place of an absent root or sender
// what a recorded one gave (channel/value_book.h). Where the book holds nothing:
//
// - a broadcast or scatter leaves what the output holds, zeros where nothing was ever written;
// - a receive of integers gets what this rank last sent in the communicator, in as many bytes of
//   the same type: shapes and counts of both directions of a pipeline are alike;
// - any other receive gets normals of mean 0 and scale 1/sqrt(elements), so that its norm is about
//   one, seeded by job and call; above kSmallSlotBytes zeros, above kSmallTransferBytes it becomes
//   never written.
//
// Counted: "values_replayed" (of that very root or sender), "values_of_peer_role" (of one that lies
// alike), "absent_root_broadcast" (nothing recorded), "absent_root_large" (more than is kept of
// any), "virtual_recv_mirrored", "virtual_recv", "values_beyond_limit" (given, but too large in sum
// to keep), "gathered_objects_repeated" (bytes of absent members in an all_gather or gather, which
// are those of a present one).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "shim/channel/messages.h"
#include "shim/nccl/exchange.h"
#include "shim/nccl/membership.h"

namespace prism::shim {

class AbsentMembers {
 public:
  // Once, before the first call. Members need not be known.
  void Describe(const Membership& members, int32_t size);

  // Before a collective: keeps what this rank gives as its root; where the root is absent,
  // provides the output and makes the lowest present member the root of a broadcast.
  void BeforeCollective(ExchangeOperation operation,
                        ExchangeCall* call,
                        const void** send,
                        void* recv,
                        Memory* memory);

  // A send to, or a receive from, a member that is absent: all there is to do.
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
  static void CountObjects(ExchangeOperation operation,
                           const ExchangeCall& call,
                           const void* send,
                           Memory* memory);
  bool Mirror(const ExchangeCall& call, void* recv, Memory* memory);

  Membership members_;
  uint64_t shape_ = 0;
  std::mutex mutex_;
  // Calls so far, by operation and root. Other collectives do not count: stages of a pipeline have
  // different ones in between.
  std::map<std::pair<ExchangeOperation, int32_t>, uint64_t> rooted_;
  std::map<int32_t, uint64_t> sent_;  // messages so far, by peer
  std::map<int32_t, uint64_t> received_;
  std::map<std::pair<size_t, Element>, std::vector<std::byte>> last_sent_;  // by bytes and type
};

// A send or receive of a communicator, whose absent members are `absent`.
struct MemberTransfer {
  AbsentMembers* absent = nullptr;
  bool is_send = false;
  ExchangeTransfer transfer;
};

// Does what there is to do of those with absent peers; returns the others.
std::vector<ExchangeTransfer> RunWithAbsent(std::span<const MemberTransfer> transfers,
                                            Memory* memory);

// Sends and receives at once, with present and absent members.
ExchangeStatus RunTransfers(std::span<const MemberTransfer> transfers,
                            Exchange* exchange,
                            Memory* memory);

}  // namespace prism::shim
