// A memory snapshot whose peaks can be worked out by hand.
#pragma once

#include <cstdint>

#include "replayer/memory/snapshot.h"

namespace prism::testing {

inline constexpr uint64_t kSnapshotBegin = 0x1000000;

// 5 MiB of weights in a segment of 20, then 16 of gradients, 16 of activations until 24 of states
// take their place, each in a segment of its own.
inline replayer::MemorySnapshot SmallSnapshot() {
  using replayer::AllocatorAction;
  using replayer::BlockState;
  constexpr int64_t kMiB = 1 << 20;
  constexpr uint64_t kGradients = kSnapshotBegin + 64 * kMiB;
  constexpr uint64_t kActivations = kSnapshotBegin + 128 * kMiB;
  constexpr uint64_t kStates = kSnapshotBegin + 192 * kMiB;
  replayer::MemorySnapshot snapshot;
  const auto segment = [&](uint64_t address, int64_t mib) {
    snapshot.segments.push_back({address, mib * kMiB, 0, replayer::PoolKind::kLarge, false, {}});
  };
  const auto block = [&](uint64_t address, int64_t mib, BlockState state) {
    snapshot.segments.back().blocks.push_back(
        {address, mib * kMiB, state == BlockState::kFree ? 0 : mib * kMiB, state});
  };
  segment(kSnapshotBegin, 20);
  block(kSnapshotBegin, 5, BlockState::kAllocated);
  block(kSnapshotBegin + 5 * kMiB, 15, BlockState::kFree);
  segment(kGradients, 16);
  block(kGradients, 16, BlockState::kAllocated);
  segment(kActivations, 16);
  block(kActivations, 16, BlockState::kFree);
  segment(kStates, 24);
  block(kStates, 24, BlockState::kFree);
  const auto add = [&](AllocatorAction action, uint64_t address, int64_t mib, const char* frame) {
    snapshot.events.push_back({{action, address, mib * kMiB, 0}, 0, frame});
  };
  const auto free = [&](uint64_t address, int64_t mib) {
    add(AllocatorAction::kFreeRequested, address, mib, "");
    add(AllocatorAction::kFreeCompleted, address, mib, "");
  };
  add(AllocatorAction::kSegmentAlloc, kSnapshotBegin, 20, "");
  add(AllocatorAction::kAlloc, kSnapshotBegin, 5, "weights");
  add(AllocatorAction::kSegmentAlloc, kGradients, 16, "");
  add(AllocatorAction::kAlloc, kGradients, 16, "gradients");
  add(AllocatorAction::kSegmentAlloc, kActivations, 16, "");
  add(AllocatorAction::kAlloc, kActivations, 16, "activations");
  free(kActivations, 16);
  add(AllocatorAction::kSegmentAlloc, kStates, 24, "");
  add(AllocatorAction::kAlloc, kStates, 24, "states");
  free(kStates, 24);
  return snapshot;
}

}  // namespace prism::testing
