// Memory snapshots of torch.cuda.memory._dump_snapshot, read: the segments of each device and the
// history of its allocator. Nothing of the pickle is executed (replayer/memory/pickle.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "replayer/memory/allocator_trace.h"

namespace prism::launch {

// Where something was allocated, from the frames that the snapshot has.
struct AllocationStack {
  std::string site;   // the innermost frame of the program, else one of torch's
  std::string phase;  // "optimizer", "backward", "other", or "no stack"
  std::string text;   // "f a.py:3 < g b.py:7": the innermost 16
};

inline constexpr uint32_t kNoStack = 0;  // of SnapshotFile::stacks

struct HistoryEvent {
  replayer::AllocatorEvent event;
  uint32_t stack = kNoStack;
};

struct DeviceSnapshot {
  int64_t device = 0;
  std::vector<replayer::SegmentState> segments;  // by address
  std::map<uint64_t, uint32_t> stack_of;         // of blocks in use, by address
  std::vector<HistoryEvent> history;             // oldest first; empty if it was not recorded
  int64_t private_segments = 0;                  // of pools of CUDA graphs and of users
};

struct SnapshotFile {
  std::vector<AllocationStack> stacks;  // the first: of what has none
  std::string settings;                 // PYTORCH_CUDA_ALLOC_CONF; "" not stated
  bool expandable = false;              // segments
  std::vector<DeviceSnapshot> devices;  // with segments or a history, ascending
};

inline constexpr size_t kPickleBegin = 2;

// Whether a file begins as a pickle does.
bool IsPickle(std::string_view beginning);

// kBadFile: "<name>: ...".
Result<SnapshotFile> ReadSnapshot(std::string_view bytes, const std::string& name);

}  // namespace prism::launch
