// The history of a device's allocator: its peak and what was there, and what the same requests
// would have taken under other settings (replayer/memory/caching_allocator.h).
#pragma once

#include <cstdint>
#include <vector>

#include "launch/analyse/memory/snapshot_file.h"
#include "replayer/memory/allocator_config.h"

namespace prism::launch {

struct LiveBlock {
  uint64_t address = 0;
  int64_t bytes = 0;  // as requested
  int64_t stream = 0;
  uint32_t stack = kNoStack;
};

struct SnapshotHistory {
  std::vector<LiveBlock> before;  // what was there when the history begins, by address
  std::vector<LiveBlock> at_peak;
  int64_t peak_requested_bytes = 0;
  int64_t peak_reserved_bytes = 0;
  int64_t reserved_at_peak_bytes = 0;  // when most was requested
  int64_t requested_at_reserved = 0;   // when most was reserved
  int64_t peak_event = -1;             // -1: before all events
  int64_t inconsistent = 0;            // events that do not fit the snapshot's end
};

SnapshotHistory HistoryOf(const DeviceSnapshot& device);

// What the requests of a history take.
struct SimulatedMemory {
  int64_t peak_reserved_bytes = 0;
  int64_t peak_active_bytes = 0;  // of blocks allocated or waiting for a stream
  int64_t reserved_bytes = 0;     // at the end
  int64_t device_allocations = 0;
};

// Replays the history on an allocator that has all memory it asks for, with `before` placed first.
// Where the job ran out of memory, what it asked for is given and taken back. `falling`: the device
// returns segments at falling addresses, not at rising ones.
SimulatedMemory Simulate(const DeviceSnapshot& device,
                         const SnapshotHistory& history,
                         const replayer::AllocatorConfig& config,
                         bool falling = false);

}  // namespace prism::launch
