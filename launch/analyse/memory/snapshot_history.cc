#include "launch/analyse/memory/snapshot_history.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "replayer/memory/caching_allocator.h"

namespace prism::launch {
namespace {

using replayer::AllocatorAction;
using replayer::AllocatorEvent;
using replayer::BlockState;
using replayer::CachingAllocator;

constexpr int64_t kAllMemory = int64_t{1} << 44;  // address space for it is reserved many times

// Bytes that an event adds to what is reserved.
int64_t ReservedBy(const AllocatorEvent& event) {
  switch (event.action) {
    case AllocatorAction::kSegmentAlloc:
    case AllocatorAction::kSegmentMap:
      return event.bytes;
    case AllocatorAction::kSegmentFree:
    case AllocatorAction::kSegmentUnmap:
      return -event.bytes;
    default:
      return 0;
  }
}

using LiveBlocks = std::map<uint64_t, LiveBlock>;  // by address

LiveBlocks LiveAtEnd(const DeviceSnapshot& device) {
  LiveBlocks live;
  for (const replayer::SegmentState& segment : device.segments) {
    for (const replayer::BlockInfo& block : segment.blocks) {
      if (block.state != BlockState::kFree) {
        live[block.address] = {block.address, block.requested_bytes, segment.stream,
                               device.stack_of.at(block.address)};
      }
    }
  }
  return live;
}

LiveBlock BlockOf(const HistoryEvent& entry, uint32_t stack) {
  return {entry.event.address, entry.event.bytes, entry.event.stream, stack};
}

// Undoes the history from its end; returns what was reserved before it.
int64_t Rewind(const DeviceSnapshot& device, LiveBlocks* live, SnapshotHistory* history) {
  int64_t reserved = 0;
  for (const replayer::SegmentState& segment : device.segments) {
    reserved += segment.bytes;
  }
  for (size_t i = device.history.size(); i-- > 0;) {
    const HistoryEvent& entry = device.history[i];
    reserved -= ReservedBy(entry.event);
    if (entry.event.action == AllocatorAction::kAlloc) {
      history->inconsistent += live->erase(entry.event.address) == 0 ? 1 : 0;
    } else if (entry.event.action == AllocatorAction::kFreeCompleted) {
      const bool is_new = live->try_emplace(entry.event.address, BlockOf(entry, kNoStack)).second;
      history->inconsistent += is_new ? 0 : 1;
    }
  }
  return reserved;
}

void Apply(const HistoryEvent& entry, LiveBlocks* live, int64_t* requested) {
  if (entry.event.action == AllocatorAction::kAlloc) {
    const LiveBlock block = BlockOf(entry, entry.stack);
    *requested += block.bytes;
    (*live)[entry.event.address] = block;
  } else if (entry.event.action == AllocatorAction::kFreeCompleted) {
    if (const auto freed = live->extract(entry.event.address)) {
      *requested -= freed.mapped().bytes;
    }
  }
}

std::vector<LiveBlock> ListOf(const LiveBlocks& live) {
  std::vector<LiveBlock> list;
  for (const auto& [address, block] : live) {
    list.push_back(block);
  }
  return list;
}

// A device whose segments lie at falling addresses.
class FallingDevice final : public replayer::AllocatorDevice {
 public:
  explicit FallingDevice(bool falls) : falls_(falls) {}

  [[nodiscard]] int64_t total_bytes() const override { return device_.total_bytes(); }
  [[nodiscard]] int64_t free_bytes() const override { return device_.free_bytes(); }

  std::optional<uint64_t> Allocate(int64_t bytes) override {
    const std::optional<uint64_t> address = device_.Allocate(bytes);
    return falls_ && address ? Mirrored(*address, bytes) : address;
  }
  void Free(uint64_t address, int64_t bytes) override {
    device_.Free(falls_ ? Mirrored(address, bytes) : address, bytes);
  }
  uint64_t Reserve(int64_t bytes) override { return device_.Reserve(bytes); }
  bool Map(uint64_t address, int64_t bytes) override { return device_.Map(address, bytes); }
  void Unmap(uint64_t address, int64_t bytes) override { device_.Unmap(address, bytes); }
  int64_t RecordEvent(int64_t stream) override { return device_.RecordEvent(stream); }
  [[nodiscard]] bool HasFinished(int64_t event) const override {
    return device_.HasFinished(event);
  }

 private:
  static uint64_t Mirrored(uint64_t address, int64_t bytes) {
    return (uint64_t{1} << 63U) - address - static_cast<uint64_t>(bytes);
  }

  bool falls_;
  replayer::SimulatedDevice device_{kAllMemory};
};

}  // namespace

SnapshotHistory HistoryOf(const DeviceSnapshot& device) {
  SnapshotHistory history;
  LiveBlocks live = LiveAtEnd(device);
  const int64_t reserved_before = Rewind(device, &live, &history);
  history.before = ListOf(live);
  int64_t requested = 0;
  for (const LiveBlock& block : history.before) {
    requested += block.bytes;
  }
  const int64_t requested_before = requested;
  int64_t reserved = reserved_before;
  history.peak_requested_bytes = requested;
  history.peak_reserved_bytes = history.reserved_at_peak_bytes = reserved;
  history.requested_at_reserved = requested;
  LiveBlocks now = live;
  for (size_t i = 0; i < device.history.size(); ++i) {
    reserved += ReservedBy(device.history[i].event);
    Apply(device.history[i], &now, &requested);
    if (requested > history.peak_requested_bytes) {
      history.peak_requested_bytes = requested;
      history.reserved_at_peak_bytes = reserved;
      history.peak_event = static_cast<int64_t>(i);
    }
    if (reserved > history.peak_reserved_bytes) {
      history.peak_reserved_bytes = reserved;
      history.requested_at_reserved = requested;
    }
  }
  requested = requested_before;
  for (int64_t i = 0; i <= history.peak_event; ++i) {
    Apply(device.history[static_cast<size_t>(i)], &live, &requested);
  }
  history.at_peak = ListOf(live);
  return history;
}

SimulatedMemory Simulate(const DeviceSnapshot& device,
                         const SnapshotHistory& history,
                         const replayer::AllocatorConfig& config,
                         bool falling) {
  FallingDevice memory(falling);
  CachingAllocator allocator(config, &memory);
  std::unordered_map<uint64_t, CachingAllocator::BlockId> blocks;  // by the snapshot's address
  const auto allocate = [&](uint64_t address, int64_t bytes, int64_t stream) {
    if (const auto block = allocator.Allocate(std::max<int64_t>(bytes, 1), stream)) {
      blocks[address] = *block;
    }
  };
  const auto free = [&](uint64_t address) {
    if (const auto block = blocks.extract(address)) {
      allocator.Free(block.mapped());
    }
  };
  for (const LiveBlock& block : history.before) {
    allocate(block.address, block.bytes, block.stream);
  }
  bool emptied = false;
  for (const HistoryEvent& entry : device.history) {
    const AllocatorEvent& event = entry.event;
    const bool releases = event.action == AllocatorAction::kSegmentFree ||
                          event.action == AllocatorAction::kSegmentUnmap;
    if (event.action == AllocatorAction::kAlloc) {
      free(event.address);  // an event that does not fit
      allocate(event.address, event.bytes, event.stream);
    } else if (event.action == AllocatorAction::kFreeCompleted) {
      free(event.address);
    } else if (event.action == AllocatorAction::kOutOfMemory && event.bytes > 0) {
      if (const auto block = allocator.Allocate(event.bytes, event.stream)) {
        allocator.Free(*block);
      }
    } else if (releases && !emptied) {
      allocator.EmptyCache();
    }
    emptied = releases;
  }
  const replayer::AllocatorStatistics& statistics = allocator.statistics();
  return {statistics.all.reserved_bytes.peak, statistics.all.active_bytes.peak,
          statistics.all.reserved_bytes.current, statistics.device_allocations};
}

}  // namespace prism::launch
