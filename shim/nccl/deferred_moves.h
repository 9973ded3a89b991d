// Moves of values that continue after their call has returned.
//
// A real NCCL enqueues: two ranks may call on two communicators in different orders, as long as no
// stream waits for both. Here a call moves its values itself, and waits for the other members. If
// they do not arrive (Patience) the call returns, and a thread waits for them in its place. What a
// move reads and writes is claimed: whoever else accesses those bytes waits until the move has
// ended. So results are the same bytes whether or not a move was deferred.
//
// A job whose real ranks would deadlock does not get this far: its graph does not validate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shim/nccl/exchange_arena.h"

namespace prism::shim {

// Bytes that a move reads or writes.
struct Claim {
  const void* begin = nullptr;
  size_t bytes = 0;
  bool writes = false;
};

struct Move {
  std::vector<uint64_t> communicators = {};
  std::vector<uint64_t> orders = {};  // moves that share one of these begin in the order of their
                                      // calls
  std::vector<Claim> claims = {};
  // Moves the values and returns the call's result. Null: the others are late, which happens only
  // with short patience; it is then called again with long patience, by another thread.
  std::function<std::optional<int>(Patience)> run = {};
};

// Carries out the move, or defers it because others are late, or because a deferred move claims
// what it needs. Returns 0 if it was deferred, else its result.
int RunOrDefer(Move move);

// Returns once no deferred move is pending that writes any of the bytes or, if `for_writing`, reads
// them. Returns at once on threads of deferred moves, which own their claims.
void AwaitDeferred(const void* begin, size_t bytes, bool for_writing);

// Waits for all deferred moves of one communicator; for all of them.
void AwaitDeferredOf(uint64_t communicator);
void AwaitAllDeferred();

// Whether there are any.
bool AnyDeferred();

}  // namespace prism::shim
