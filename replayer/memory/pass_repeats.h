// Passes of a schedule that need not be simulated, as they do to an allocator what others did.
//
// Behind a backward pass of 1F1B, n micro-batches are in flight. Where the blocks that are free and
// those of every micro-batch, oldest first, are what they were n + 1 pairs of passes before, and no
// segment came or went in between, all that is held is where it was: what follows repeats those
// pairs, and no peak of theirs is new.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "replayer/memory/memory_account.h"

namespace prism::replayer {

using MemoryBlocks = std::vector<MemoryAccount::Block>;
using BlocksInFlight = std::deque<std::vector<MemoryBlocks>>;  // by micro-batch and unit

class PassRepeats {
 public:
  // `pairs`: of a forward and a backward pass, in all. `account` outlives this.
  PassRepeats(int64_t pairs, const MemoryAccount* account) : left_(pairs), account_(account) {}

  // Behind a backward pass: how many of the pairs that follow may be left out.
  int64_t PairsToLeaveOut(const BlocksInFlight& in_flight);

 private:
  struct State {
    MemoryAccount::Places places;
    std::vector<uint64_t> in_flight;

    bool operator==(const State&) const = default;
  };

  int64_t left_;
  const MemoryAccount* account_;
  std::deque<State> states_;  // after the last pairs, the latest last
};

}  // namespace prism::replayer
