// Memory snapshots as torch.cuda.memory._dump_snapshot writes them: a pickle that the PyTorch
// memory viewer and torch.cuda._memory_viz can open. Format: what torch/cuda/_memory_viz.py reads.
//
// One device, one stack frame per event: the name of what the program did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replayer/memory/allocator_trace.h"

namespace prism::replayer {

struct SnapshotEvent {
  AllocatorEvent event;
  int64_t time_us = 0;
  std::string frame;  // what requested it, e.g. "aten::mm [2048,4096]"; "" unknown
};

struct MemorySnapshot {
  std::vector<SegmentState> segments;  // the state at the end
  std::vector<SnapshotEvent> events;   // oldest first
  bool expandable_segments = false;
};

std::string EncodeSnapshot(const MemorySnapshot& snapshot);

}  // namespace prism::replayer
