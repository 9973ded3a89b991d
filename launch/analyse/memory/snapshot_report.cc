#include "launch/analyse/memory/snapshot_report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "launch/analyse/memory/snapshot_history.h"
#include "replayer/memory/allocator_config.h"

namespace prism::launch {
namespace {

using replayer::AllocatorAction;
using replayer::AllocatorConfig;
using replayer::BlockState;
using replayer::SegmentState;

// What users try; the snapshot's own settings are changed by them.
constexpr const char* kUsualSettings[] = {"expandable_segments:True", "max_split_size_mb:128",
                                          "max_split_size_mb:512", "roundup_power2_divisions:8"};

int64_t ReservedOf(const DeviceSnapshot& device) {
  int64_t bytes = 0;
  for (const SegmentState& segment : device.segments) {
    bytes += segment.bytes;
  }
  return bytes;
}

Result<const DeviceSnapshot*> ChooseDevice(const SnapshotFile& file,
                                           int64_t number,
                                           const std::string& name) {
  if (file.devices.empty()) {
    return BadFile(fmt::format("{}: has no segments and no history", name));
  }
  if (number < 0) {
    return &*std::ranges::max_element(file.devices, {}, ReservedOf);
  }
  const auto device = std::ranges::find(file.devices, number, &DeviceSnapshot::device);
  if (device == file.devices.end()) {
    return InvalidArgument(fmt::format("--device {}: {} has {}", number, name,
                                       FormatCounted(std::ssize(file.devices), "device")));
  }
  return &*device;
}

// Segments of a pool and a stream.
struct PoolState {
  int64_t segments = 0;
  int64_t reserved = 0;
  int64_t allocated = 0;
  int64_t requested = 0;  // of what is allocated
  int64_t pending = 0;
  int64_t unused = 0;  // whole segments
  int64_t gaps = 0;    // free between blocks in use
  int64_t largest_gap = 0;

  void Add(const SegmentState& segment) {
    ++segments;
    reserved += segment.bytes;
    int64_t free = 0;
    int64_t largest = 0;
    for (const replayer::BlockInfo& block : segment.blocks) {
      if (block.state == BlockState::kFree) {
        free += block.bytes;
        largest = std::max(largest, block.bytes);
      } else if (block.state == BlockState::kPendingFree) {
        pending += block.bytes;
      } else {
        allocated += block.bytes;
        requested += block.requested_bytes;
      }
    }
    if (free == segment.bytes) {
      unused += free;
    } else {
      gaps += free;
      largest_gap = std::max(largest_gap, largest);
    }
  }
};

ReportTable StateTable(const DeviceSnapshot& device) {
  ReportTable table = {"state",
                       "At the snapshot: segments by pool and stream",
                       {{"pool", "pool", ColumnKind::kText},
                        {"stream", "stream", ColumnKind::kCount},
                        {"segments", "segments", ColumnKind::kCount},
                        {"reserved_bytes", "reserved", ColumnKind::kBytes},
                        {"allocated_bytes", "allocated", ColumnKind::kBytes},
                        {"rounding_bytes", "of it rounding", ColumnKind::kBytes},
                        {"awaiting_free_bytes", "awaiting free", ColumnKind::kBytes},
                        {"free_in_used_segments_bytes", "free between blocks", ColumnKind::kBytes},
                        {"largest_free_in_used_bytes", "largest such", ColumnKind::kBytes},
                        {"free_segments_bytes", "free segments", ColumnKind::kBytes},
                        {"fragmentation_pct", "fragmentation", ColumnKind::kPercent}},
                       {}};
  std::map<std::pair<std::string, int64_t>, PoolState> pools;
  for (const SegmentState& segment : device.segments) {
    const bool is_small = segment.pool == replayer::PoolKind::kSmall;
    pools[{is_small ? "small" : "large", segment.stream}].Add(segment);
    if (device.segments.size() > 1) {
      pools[{"all", -1}].Add(segment);
    }
  }
  for (const auto& [where, pool] : pools) {
    table.rows.push_back(
        {where.first, where.second < 0 ? ReportCell() : where.second, pool.segments, pool.reserved,
         pool.allocated, pool.allocated - pool.requested, pool.pending, pool.gaps, pool.largest_gap,
         pool.unused,
         PercentOf(static_cast<double>(pool.gaps), static_cast<double>(pool.reserved))});
  }
  return table;
}

ReportTable FreeTable(const DeviceSnapshot& device) {
  ReportTable table = {"largest_free_blocks",
                       "The largest free blocks: a request of more needs another segment",
                       {{"bytes", "bytes", ColumnKind::kBytes},
                        {"segment_bytes", "of a segment of", ColumnKind::kBytes},
                        {"stream", "stream", ColumnKind::kCount},
                        {"address", nullptr, ColumnKind::kCount}},
                       {}};
  for (const SegmentState& segment : device.segments) {
    for (const replayer::BlockInfo& block : segment.blocks) {
      if (block.state == BlockState::kFree) {
        table.rows.push_back(
            {block.bytes, segment.bytes, segment.stream, static_cast<int64_t>(block.address)});
      }
    }
  }
  std::ranges::stable_sort(table.rows, [](const auto& a, const auto& b) {
    return std::get<int64_t>(a.front()) > std::get<int64_t>(b.front());
  });
  constexpr size_t kMost = 100;
  table.rows.resize(std::min(kMost, table.rows.size()));
  return table;
}

ReportTable PeakTable(const SnapshotHistory& history, const SimulatedMemory& simulated) {
  ReportTable table = {"peak",
                       "Peaks of the history",
                       {{"what", "what", ColumnKind::kText},
                        {"requested_bytes", "requested", ColumnKind::kBytes},
                        {"reserved_bytes", "reserved", ColumnKind::kBytes},
                        {"event", "event", ColumnKind::kCount}},
                       {}};
  table.rows.push_back({std::string("most requested"), history.peak_requested_bytes,
                        history.reserved_at_peak_bytes,
                        history.peak_event < 0 ? ReportCell() : history.peak_event});
  table.rows.push_back({std::string("most reserved"), history.requested_at_reserved,
                        history.peak_reserved_bytes, ReportCell()});
  table.rows.push_back({std::string("simulated, in blocks"), simulated.peak_active_bytes,
                        simulated.peak_reserved_bytes, ReportCell()});
  return table;
}

// What is there at the peak, by a part of its stack.
ReportTable AtPeakTable(const char* key,
                        const std::string& title,
                        const SnapshotHistory& history,
                        const std::vector<AllocationStack>& stacks,
                        std::string AllocationStack::* part) {
  ReportTable table = {key,
                       title,
                       {{"name", "name", ColumnKind::kText},
                        {"blocks", "blocks", ColumnKind::kCount},
                        {"bytes", "bytes", ColumnKind::kBytes},
                        {"share_pct", "share", ColumnKind::kPercent}},
                       {}};
  std::map<std::string, std::pair<int64_t, int64_t>> by_name;
  for (const LiveBlock& block : history.at_peak) {
    auto& [count, bytes] = by_name[stacks[block.stack].*part];
    ++count;
    bytes += block.bytes;
  }
  by_name.erase("");
  for (const auto& [name, sums] : by_name) {
    table.rows.push_back({name, sums.first, sums.second,
                          PercentOf(static_cast<double>(sums.second),
                                    static_cast<double>(history.peak_requested_bytes))});
  }
  std::ranges::stable_sort(table.rows, [](const auto& a, const auto& b) {
    return std::get<int64_t>(a[2]) > std::get<int64_t>(b[2]);
  });
  return table;
}

// The settings that a snapshot states, as text and read.
struct Settings {
  std::string text;
  AllocatorConfig config;
};

Settings OwnSettings(const SnapshotFile& file, std::vector<std::string>* notes) {
  Settings own = {file.settings, {}};
  Result<AllocatorConfig> read = replayer::ParseAllocatorConfig(file.settings);
  if (read.ok()) {
    own.config = *read;
  } else {
    notes->push_back(
        fmt::format("settings '{}' are not simulated: {}", file.settings, read.status().message()));
    own.text.clear();
  }
  if (file.expandable && !own.config.expandable_segments) {
    own.config.expandable_segments = true;
    own.text += own.text.empty() ? "expandable_segments:True" : ",expandable_segments:True";
  }
  return own;
}

// The snapshot's settings with others added.
Result<AllocatorConfig> Changed(const Settings& own, const std::string& added) {
  return replayer::ParseAllocatorConfig(own.text.empty() ? added : own.text + "," + added);
}

struct Simulations {
  const DeviceSnapshot& device;
  const SnapshotHistory& history;
  Settings own;
  SimulatedMemory as_set;
};

void AddSimulation(const std::string& name,
                   const SimulatedMemory& memory,
                   const Simulations& all,
                   ReportTable* table) {
  table->rows.push_back({name, memory.peak_reserved_bytes,
                         memory.peak_reserved_bytes - all.as_set.peak_reserved_bytes,
                         memory.peak_reserved_bytes - memory.peak_active_bytes,
                         memory.reserved_bytes, memory.device_allocations});
}

Result<ReportTable> SettingsTable(const Simulations& all, const std::vector<std::string>& asked) {
  ReportTable table = {"settings",
                       "What the same requests take, simulated (difference: to the settings of "
                       "the snapshot)",
                       {{"settings", "settings", ColumnKind::kText},
                        {"peak_reserved_bytes", "peak reserved", ColumnKind::kBytes},
                        {"difference_bytes", "difference", ColumnKind::kBytes},
                        {"over_active_bytes", "over the peak in use", ColumnKind::kBytes},
                        {"reserved_bytes", "at the end", ColumnKind::kBytes},
                        {"device_allocations", "segments asked for", ColumnKind::kCount}},
                       {}};
  AddSimulation(all.own.text.empty() ? "as the snapshot has it (defaults)"
                                     : fmt::format("as the snapshot has it ({})", all.own.text),
                all.as_set, all, &table);
  std::vector<std::string> settings(std::begin(kUsualSettings), std::end(kUsualSettings));
  settings.insert(settings.end(), asked.begin(), asked.end());
  for (const std::string& added : settings) {
    PRISM_ASSIGN_OR_RETURN(const AllocatorConfig config, Changed(all.own, added));
    if (config != all.own.config) {
      AddSimulation(added, Simulate(all.device, all.history, config), all, &table);
    }
  }
  if (!all.own.config.expandable_segments) {
    AddSimulation("segments at falling addresses",
                  Simulate(all.device, all.history, all.own.config, true), all, &table);
  }
  return table;
}

ReportTable OomTable(const DeviceSnapshot& device) {
  ReportTable table = {"out_of_memory",
                       "Out of memory",
                       {{"event", "event", ColumnKind::kCount},
                        {"bytes", "asked for", ColumnKind::kBytes},
                        {"device_free_bytes", "free on the device", ColumnKind::kBytes}},
                       {}};
  for (size_t i = 0; i < device.history.size(); ++i) {
    const replayer::AllocatorEvent& event = device.history[i].event;
    if (event.action == AllocatorAction::kOutOfMemory) {
      table.rows.push_back(
          {static_cast<int64_t>(i), event.bytes, static_cast<int64_t>(event.address)});
    }
  }
  return table;
}

std::vector<std::string> NotesOf(const SnapshotFile& file,
                                 const DeviceSnapshot& device,
                                 const SnapshotHistory& history) {
  std::vector<std::string> notes;
  if (file.devices.size() > 1) {
    notes.push_back(fmt::format("has {} devices; --device N chooses another", file.devices.size()));
  }
  const auto failed = std::ranges::count_if(device.history, [](const HistoryEvent& entry) {
    return entry.event.action == replayer::AllocatorAction::kOutOfMemory && entry.event.bytes > 0;
  });
  if (failed > 0) {
    notes.push_back(fmt::format("{} that found no memory {} simulated as if there were room",
                                FormatCounted(failed, "request"), failed == 1 ? "is" : "are"));
  }
  if (device.history.empty()) {
    notes.emplace_back(
        "has no history: the peak is what is there now; record one with "
        "torch.cuda.memory._record_memory_history");
  }
  if (!history.before.empty() && !device.history.empty()) {
    notes.push_back(fmt::format(
        "{} older than the history and placed first, by address, in the simulation",
        history.before.size() == 1 ? "1 block is"
                                   : FormatCount(std::ssize(history.before)) + " blocks are"));
  }
  if (history.inconsistent > 0) {
    notes.push_back(fmt::format("{} not fit the blocks at the end, and are taken as they are",
                                history.inconsistent == 1
                                    ? "1 event does"
                                    : FormatCount(history.inconsistent) + " events do"));
  }
  if (device.private_segments > 0) {
    notes.push_back(fmt::format("{} of private pools (CUDA graphs) are simulated in the common one",
                                FormatCounted(device.private_segments, "segment")));
  }
  return notes;
}

}  // namespace

Result<TableReport> ReportOfSnapshot(const SnapshotFile& file,
                                     const SnapshotChoice& choice,
                                     const std::string& name) {
  PRISM_ASSIGN_OR_RETURN(const DeviceSnapshot* const device,
                         ChooseDevice(file, choice.device, name));
  const SnapshotHistory history = HistoryOf(*device);
  TableReport report;
  report.title = fmt::format("memory snapshot {}, device {}: {} reserved, {} in the history", name,
                             device->device, FormatBytes(ReservedOf(*device)),
                             FormatCounted(std::ssize(device->history), "event"));
  report.notes = NotesOf(file, *device, history);
  Simulations all = {*device, history, OwnSettings(file, &report.notes), {}};
  all.as_set = Simulate(*device, history, all.own.config);
  PRISM_ASSIGN_OR_RETURN(ReportTable settings, SettingsTable(all, choice.settings));
  report.tables = {StateTable(*device),
                   PeakTable(history, all.as_set),
                   AtPeakTable("at_peak_by_phase", "At the peak, by what the stack shows", history,
                               file.stacks, &AllocationStack::phase),
                   AtPeakTable("at_peak_by_site", "At the peak, by where it was allocated", history,
                               file.stacks, &AllocationStack::site),
                   AtPeakTable("at_peak_by_stack", "At the peak, by stack", history, file.stacks,
                               &AllocationStack::text),
                   FreeTable(*device),
                   OomTable(*device),
                   std::move(settings)};
  report.tables[4].in_text = false;
  return report;
}

}  // namespace prism::launch
