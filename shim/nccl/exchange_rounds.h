// Rounds of one collective on one communicator: in each, every present member deposits one chunk
// (or nothing) and then reads those of the others. With one present member nothing is shared and
// there is no waiting. Internal to the exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/nccl/exchange.h"

namespace prism::shim::internal {

class Rounds {
 public:
  // `bytes` is the size of the operation, on which all members must agree; `any_valid`: some byte
  // of what this member is going to deposit was ever written.
  Rounds(ExchangeArena* arena, Memory* memory, const ExchangeCall& call);
  void Describe(ExchangeOperation operation, uint64_t bytes, bool any_valid);

  // Call before the first round: Exchange::Announce and Exchange::WaitForOthers.
  ExchangeStatus Announce(uint32_t* number);
  ExchangeStatus WaitForOthers(uint32_t number, Patience patience);

  // Starts a round with `bytes` (at most kChunkBytes) at `source` as this member's chunk and
  // returns when all members have arrived. A mismatch or a stall aborts the arena.
  ExchangeStatus Deposit(const void* source, size_t bytes);
  // Ends the round. Must follow every successful Deposit.
  void Release();

  // Between Deposit and Release: whether any member announced anything valid at all, and the chunk
  // of a member by index in `present`, nullptr where it was never written.
  [[nodiscard]] bool NothingValid() const;
  [[nodiscard]] const std::byte* Chunk(size_t index) const;

  [[nodiscard]] std::vector<const std::byte*> WithRecorded(
      const std::vector<const std::byte*>& present) const;

  // Writes the reduction of all chunks, absent members included, to `target`.
  void ReduceTo(void* target, size_t bytes);
  // Writes the chunk of a member to `target`.
  void CopyTo(void* target, size_t index, size_t bytes);

  // The index in `present` of this member, and of any rank; -1 if absent.
  [[nodiscard]] int32_t IndexOf(int32_t rank) const;
  [[nodiscard]] size_t present_count() const { return call_.group.present.size(); }

 private:
  ExchangeStatus Attach();
  ExchangeStatus ArriveAndWait();
  ExchangeStatus ComparePosts();
  ExchangeStatus Fail(ExchangeCode code, const char* detail);
  void DescribeMissing(char* out, size_t size) const;
  [[nodiscard]] const Post& PostOf(size_t index) const;

  ExchangeArena* arena_;
  Memory* memory_;
  const ExchangeCall& call_;
  Post post_ = {};
  StagingArea* staging_ = nullptr;
  MemberArea* members_ = nullptr;  // nullptr if this is the only present member
  size_t own_index_ = 0;
  std::unique_ptr<std::byte[]> own_chunk_;  // staging of an only present member
  std::unique_ptr<std::byte[]> scratch_;    // result of a reduction
  std::unique_ptr<std::byte[]> zeros_;      // used for chunks that were never written
};

}  // namespace prism::shim::internal
