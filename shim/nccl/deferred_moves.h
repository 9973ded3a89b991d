// Moves of values that go on behind their call.
//
// A real NCCL enqueues: two ranks may call on two communicators in different order, as long as no
// stream waits for both. Here a call moves its values itself, and waits for the other members.
// Where they stay away (Patience) the call returns, and a thread waits for them in its place. What
// a move reads and writes is claimed: whoever else touches those bytes waits until it is over. So
// results are the same bytes whether or not a move was deferred.
//
// A job whose real ranks would wait for each other for ever does not come so far: its graph does
// not validate.
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
  std::vector<uint64_t> orders = {};  // moves that share one begin in the order of their calls
  std::vector<Claim> claims = {};
  // Moves the values and returns the call's result. Nothing: the others are late, which only a
  // short patience tells; it is called again with a long one, by another thread.
  std::function<std::optional<int>(Patience)> run = {};
};

// Carries the move out, or defers it: because others are late, or because a deferred one holds what
// it needs. 0 for what was deferred, else its result.
int RunOrDefer(Move move);

// Returns once no deferred move is under way that writes any of the bytes, or reads them where this
// is for writing. At once on threads of deferred moves, whose claims are their own.
void AwaitDeferred(const void* begin, size_t bytes, bool for_writing);

// All of one communicator, and all there are.
void AwaitDeferredOf(uint64_t communicator);
void AwaitAllDeferred();

// Whether there are any.
bool AnyDeferred();

}  // namespace prism::shim
