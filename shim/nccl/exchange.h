// Collectives and send/recv among the members of a communicator that are present, over an
// ExchangeArena: by processes that share it, or by threads of one process. Absent members
// contribute by the identical-rank policy: each contributes what the lowest present rank does, so
// that all present ranks agree on the result and it does not depend on who waits for whom.
//
// Calls block until the operation is complete on this member; a send returns once its bytes are in
// the mailbox (kMailboxBytes in flight), so that a pipeline schedule does not deadlock. The results
// are the same bytes in every run: contributions are combined in ascending order of rank.
//
// Bytes that were never written (Memory) are not copied: a buffer in which no member wrote anything
// costs one rendezvous whatever its size, and leaves the output never written.
//
// An Exchange may be used by several threads at a time for different communicators; calls for one
// communicator and rank must come one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shim/nccl/exchange_arena.h"
#include "shim/nccl/reduction.h"

namespace prism::shim {

namespace internal {
class Rounds;
}

enum class ExchangeOperation : uint8_t {
  kBarrier,
  kAllReduce,
  kReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};

// Of a collective as graph/program/collective_kinds.h has it, but for the barrier.
inline const char* ExchangeOperationName(ExchangeOperation operation) {
  constexpr const char* kNames[] = {"barrier",        "all_reduce", "reduce",     "all_gather",
                                    "reduce_scatter", "broadcast",  "all_to_all", "gather",
                                    "scatter",        "send",       "recv"};
  return kNames[static_cast<size_t>(operation)];
}

// One chunk of a reduction (CombineContributions).
struct ReductionCall {
  ReductionInput input;
  Element element;
  Reduction reduction;
  size_t count;
};

// How buffers are read and written. The default is ordinary memory, all of it written.
class Memory {
 public:
  virtual ~Memory() = default;
  // False: none of the bytes was ever written; `out` is then undefined.
  virtual bool Read(const void* source, size_t bytes, void* out);
  virtual void Write(void* target, size_t bytes, const void* data);
  // Marks the target as never written; ordinary memory is zeroed.
  virtual void Invalidate(void* target, size_t bytes);
  virtual bool AnyValid(const void* source, size_t bytes);
  // Writes a reduction of that many elements to the target; `scratch` has room for them.
  virtual void Reduce(const ReductionCall& call, void* target, void* scratch);
  // Whether large slots of absent members keep their contents (kSmallSlotBytes).
  [[nodiscard]] virtual bool KeepsLargeSlots() const { return true; }
};

// A communicator as one present member sees it. `present`: the communicator's present ranks,
// ascending, `rank` among them; the span must outlive the calls.
struct ExchangeGroup {
  uint64_t identity = 0;  // equal on all members, different for every other communicator
  int32_t size = 1;       // members, present or not
  int32_t rank = 0;
  std::span<const int32_t> present;
};

// Whether a member of the group runs in the sandbox.
bool IsPresent(const ExchangeGroup& group, int32_t member);

// What an absent member is known to contribute to a call of this size.
struct Contribution {
  int32_t member = 0;
  std::span<const std::byte> bytes;
};

// One call. `count` is in elements and counts as NCCL's argument of that name does: the whole
// buffer of all_reduce, reduce, broadcast, send and recv; one rank's contribution to all_gather and
// gather; one rank's result of reduce_scatter and scatter; one peer's block of all_to_all.
struct ExchangeCall {
  ExchangeGroup group;
  uint64_t sequence = 0;  // of the call in the communicator; compared, not used for ordering
  size_t count = 0;
  Element element = Element::kUint8;
  Reduction reduction;
  int32_t root = -1;                            // or the peer of send and recv
  std::span<const Contribution> recorded = {};  // of absent members, ascending; at most kChunkBytes
  const std::atomic<bool>* given_up = nullptr;  // set by another thread: a collective stops waiting

  [[nodiscard]] size_t bytes() const { return count * ElementBytes(element); }
};

// Whose contribution stands for a member's: its own if it is present or recorded, else that of the
// nearest member of those, the lower of two. Where none is recorded, that of the lowest present
// one.
class StandIns {
 public:
  explicit StandIns(const ExchangeCall& call);

  // An index into call.group.present if it is below that size, else into call.recorded after it.
  [[nodiscard]] size_t Of(int32_t member) const;

 private:
  std::vector<std::pair<int32_t, size_t>> known_;  // member, what Of returns; ascending
};

// One send (`send` set) or receive (`recv` set) with call.root as peer. Skipped if it has no bytes.
struct ExchangeTransfer {
  ExchangeCall call;
  const void* send = nullptr;
  void* recv = nullptr;
};

// Sends and receives at once, in any mixture; no order among them is needed to finish. Their peers
// must be present (absent_members.h handles absent ones).
class TransferRun {
 public:
  // Arena and memory must outlive it.
  TransferRun(ExchangeArena* arena, Memory* memory, std::vector<ExchangeTransfer> transfers);
  ~TransferRun();

  // Runs until all are complete on this member. kLate: nothing moved for as long as the patience;
  // it may be called again, and continues where it was.
  ExchangeStatus Run(Patience patience);

 private:
  struct Machines;

  // Does what involves no other rank (transfers of a rank to itself).
  ExchangeStatus Begin();

  ExchangeArena* arena_;
  Memory* memory_;
  std::vector<ExchangeTransfer> transfers_;
  std::unique_ptr<Machines> machines_;  // from Begin() on
};

class Exchange {
 public:
  // Both must outlive the exchange. Without an arena only groups with one present member work.
  Exchange(ExchangeArena* arena, Memory* memory) : arena_(arena), memory_(memory) {}

  // All but send and recv. send == recv is allowed wherever NCCL allows it. `recv` of reduce and
  // gather, and `send` of broadcast and scatter, are used only on the root; a barrier has neither.
  ExchangeStatus Collective(ExchangeOperation operation,
                            const ExchangeCall& call,
                            const void* send = nullptr,
                            void* recv = nullptr);
  // Runs a TransferRun of them to its end.
  ExchangeStatus Transfers(std::span<const ExchangeTransfer> transfers);

  // Before Collective, for a caller that may continue without the others (deferred_moves.h):
  // announces that this member has reached its next call of the communicator (once per call, in
  // order) and waits until all members have reached it. If it is the only member it does not wait.
  ExchangeStatus Announce(ExchangeOperation operation, const ExchangeCall& call, uint32_t* number);
  ExchangeStatus WaitForOthers(ExchangeOperation operation,
                               const ExchangeCall& call,
                               uint32_t number,
                               Patience patience);

 private:
  ExchangeStatus Barrier(const ExchangeCall& call);
  // To the root, or to all.
  ExchangeStatus Reduce(ExchangeOperation operation,
                        const ExchangeCall& call,
                        const void* send,
                        void* recv);
  ExchangeStatus Gather(ExchangeOperation operation,
                        const ExchangeCall& call,
                        const void* send,
                        void* recv);
  ExchangeStatus ReduceScatter(const ExchangeCall& call, const void* send, void* recv);
  ExchangeStatus Broadcast(const ExchangeCall& call, const void* send, void* recv);
  ExchangeStatus AllToAll(const ExchangeCall& call, const void* send, void* recv);
  ExchangeStatus Scatter(const ExchangeCall& call, const void* send, void* recv);
  template <typename Take>
  ExchangeStatus RunBlocks(internal::Rounds* rounds,
                           const ExchangeCall& call,
                           const void* source,
                           void* recv,
                           const Take& take);
  // A broadcast or scatter whose root is absent: the target keeps its contents, if it has any.
  ExchangeStatus MeetWithoutRoot(internal::Rounds* rounds, void* target, size_t bytes);
  void FillAbsentSlots(const ExchangeCall& call, std::byte* slots);
  friend class TransferRun;
  void Copy(void* target, const void* source, size_t bytes);

  ExchangeArena* arena_;
  Memory* memory_;
};

// Slots of absent members of an all_gather up to this size always get the bytes of those that stand
// for them (pickled objects, sizes, norms); larger ones only if nothing was ever written there, so
// that parameters loaded from a checkpoint survive.
inline constexpr size_t kSmallSlotBytes = 64U << 10U;

// Up to this size the data of an absent root is written as zeros; larger buffers become never
// written.
inline constexpr size_t kSmallTransferBytes = 1U << 20U;
void WriteZeros(void* target, size_t bytes, Memory* memory);

}  // namespace prism::shim
