// Passes of a schedule that need not be simulated, because they do to an allocator what earlier
// ones did.
//
// After a backward pass of 1F1B, n micro-batches are in flight. If the free blocks and those of
// every micro-batch, oldest first, are what they were n + 1 pairs of passes before, and no segment
// was added or released in between, then everything held is where it was: what follows repeats
// those pairs, and reaches no new peak.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "replayer/memory/tensor_blocks.h"

namespace prism::replayer {

using BlocksInFlight = std::deque<std::vector<MemoryBlocks>>;  // by micro-batch and unit

class PassRepeats {
 public:
  // `pairs`: total number of pairs of a forward and a backward pass. `account` outlives this.
  PassRepeats(int64_t pairs, const MemoryAccount* account) : left_(pairs), account_(account) {}

  // After a backward pass: how many of the following pairs may be skipped.
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
