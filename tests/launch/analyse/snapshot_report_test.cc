// Memory snapshots: what is read of them, peaks and other settings of their allocators.
#include "launch/analyse/memory/snapshot_report.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/analyse/memory/snapshot_history.h"
#include "replayer/memory/pickle.h"
#include "replayer/memory/snapshot.h"
#include "tests/support/memory_recording.h"
#include "tests/support/small_snapshot.h"

namespace prism::launch {
namespace {

using prism::testing::kSnapshotBegin;
using prism::testing::SmallSnapshot;
using replayer::AllocatorConfig;
using replayer::MemorySnapshot;

constexpr int64_t kMiB = 1 << 20;

SnapshotFile Read(const MemorySnapshot& snapshot) {
  Result<SnapshotFile> file = ReadSnapshot(EncodeSnapshot(snapshot), "s");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? *file : SnapshotFile();
}

TEST(Snapshots, what_was_written_is_read) {
  const MemorySnapshot written = SmallSnapshot();
  const SnapshotFile file = Read(written);
  ASSERT_EQ(file.devices.size(), 1U);
  EXPECT_EQ(file.devices[0].segments, written.segments);
  ASSERT_EQ(file.devices[0].history.size(), written.events.size());
  for (size_t i = 0; i < written.events.size(); ++i) {
    EXPECT_EQ(file.devices[0].history[i].event, written.events[i].event);
  }
  EXPECT_EQ(file.stacks[file.devices[0].history[1].stack].site, "weights");
  EXPECT_FALSE(file.expandable);
}

TEST(Snapshots, the_peak_is_what_was_requested_at_once) {
  const SnapshotFile file = Read(SmallSnapshot());
  const SnapshotHistory history = HistoryOf(file.devices[0]);
  EXPECT_EQ(history.inconsistent, 0);
  EXPECT_TRUE(history.before.empty());
  EXPECT_EQ(history.peak_requested_bytes, 45 * kMiB);
  EXPECT_EQ(history.peak_event, 9);
  EXPECT_EQ(history.peak_reserved_bytes, 76 * kMiB);
  ASSERT_EQ(history.at_peak.size(), 3U);
  EXPECT_EQ(file.stacks[history.at_peak[0].stack].site, "weights");
  EXPECT_EQ(file.stacks[history.at_peak[2].stack].site, "states");
}

TEST(Snapshots, older_blocks_are_found_from_the_end) {
  MemorySnapshot snapshot = SmallSnapshot();
  snapshot.events.erase(snapshot.events.begin(), snapshot.events.begin() + 6);
  const SnapshotHistory history = HistoryOf(Read(snapshot).devices[0]);
  ASSERT_EQ(history.before.size(), 3U);
  EXPECT_EQ(history.before[2].address, kSnapshotBegin + 128 * kMiB);
  EXPECT_EQ(history.peak_requested_bytes, 45 * kMiB);
}

TEST(Snapshots, other_settings_are_simulated) {
  const SnapshotFile file = Read(SmallSnapshot());
  const SnapshotHistory history = HistoryOf(file.devices[0]);
  EXPECT_EQ(Simulate(file.devices[0], history, {}).peak_reserved_bytes, 76 * kMiB);
  AllocatorConfig expandable;
  expandable.expandable_segments = true;
  EXPECT_EQ(Simulate(file.devices[0], history, expandable).peak_reserved_bytes, 60 * kMiB);
  EXPECT_EQ(Simulate(file.devices[0], history, {}, true).peak_reserved_bytes, 76 * kMiB);
  EXPECT_FALSE(ReportOfSnapshot(file, {.settings = {"no_such:1"}}, "s").ok());
  EXPECT_FALSE(ReportOfSnapshot(file, {.device = 3, .settings = {}}, "s").ok());
}

TEST(Snapshots, a_report_names_gaps_and_owners) {
  const Result<TableReport> report = ReportOfSnapshot(Read(SmallSnapshot()), {}, "s");
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::string text = TablesText(*report, 10);
  EXPECT_NE(text.find("states"), std::string::npos) << text;
  EXPECT_NE(text.find("19.74 %"), std::string::npos) << text;  // 15 of 76 MiB between blocks
  const std::string json = TablesJson(*report);
  EXPECT_NE(json.find("\"peak_reserved_bytes\": 62914560"), std::string::npos) << json;
}

TEST(Snapshots, a_report_says_what_it_does_not_show) {
  SnapshotFile file = Read(SmallSnapshot());
  HistoryEvent failed;
  failed.event.action = replayer::AllocatorAction::kOutOfMemory;
  failed.event.bytes = 1 << 20;
  file.devices.front().history.push_back(failed);
  file.devices.push_back(file.devices.front());
  file.devices.back().device += 1;
  const Result<TableReport> report =
      ReportOfSnapshot(file, {.device = file.devices.front().device, .settings = {}}, "s");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->notes,
              ::testing::IsSupersetOf(
                  {"has 2 devices; --device N chooses another",
                   "1 request that found no memory is simulated as if there were room"}));
}

// Frames as torch writes them: the innermost one of the program counts, not those of torch.
TEST(Snapshots, sites_are_outside_of_torch) {
  replayer::PickleWriter out;
  const auto text = [&](const char* key, const char* value) {
    out.Key(key);
    out.String(value);
  };
  const auto number = [&](const char* key, int64_t value) {
    out.Key(key);
    out.Int(value);
  };
  out.BeginDict();
  out.Key("segments");
  out.BeginList();
  out.BeginDict();
  number("address", 4096);
  number("total_size", 2 * kMiB);
  text("segment_type", "small");
  out.Key("blocks");
  out.BeginList();
  using Frames = std::vector<std::pair<const char*, const char*>>;  // functions and files
  for (const Frames& frames :
       {Frames{{"step", "/x/torch/optim/adam.py"}, {"step", "train.py"}},
        Frames{{"torch::unwind::unwind()", "??"}, {"at::native::mm()", "Blas.cpp"}}}) {
    out.BeginDict();
    number("size", kMiB);
    text("state", "active_awaiting_free");
    out.Key("frames");
    out.BeginList();
    for (const auto& [function, file] : frames) {
      out.BeginDict();
      text("name", function);
      text("filename", file);
      number("line", 7);
      out.EndDict();
    }
    out.EndList();
    out.EndDict();
  }
  out.EndList();
  out.EndDict();
  out.EndList();
  out.Key("device_traces");
  out.BeginList();
  out.EndList();
  out.EndDict();
  const Result<SnapshotFile> file = ReadSnapshot(out.Finish(), "s");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const AllocationStack& stack = file->stacks[file->devices[0].stack_of.at(4096)];
  EXPECT_EQ(stack.site, "step train.py:7");
  EXPECT_EQ(stack.phase, "optimizer");
  const DeviceSnapshot& device = file->devices[0];
  EXPECT_EQ(file->stacks[device.stack_of.at(4096 + kMiB)].site, "at::native::mm() Blas.cpp:7");
  EXPECT_EQ(stack.text, "step /x/torch/optim/adam.py:7 < step train.py:7");
}

TEST(Snapshots, damaged_ones_are_refused) {
  const std::string whole = EncodeSnapshot(SmallSnapshot());
  for (size_t length = 0; length < whole.size(); ++length) {
    const Result<SnapshotFile> file = ReadSnapshot(whole.substr(0, length), "s");
    ASSERT_FALSE(file.ok()) << length;
    EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
  }
  MemorySnapshot gap = SmallSnapshot();
  gap.segments[0].blocks.pop_back();
  EXPECT_FALSE(ReadSnapshot(EncodeSnapshot(gap), "s").ok());
  MemorySnapshot huge = SmallSnapshot();
  huge.events[1].event.bytes = int64_t{1} << 41;
  EXPECT_FALSE(ReadSnapshot(EncodeSnapshot(huge), "s").ok());
  EXPECT_FALSE(ReadSnapshot("\x80\x04}.", "s").ok());  // an empty dictionary
}

// A byte can stand for a value of sixteen.
TEST(Snapshots, pickles_take_a_multiple_of_their_size_at_most) {
  constexpr size_t kValues = 4'000'000;
  const std::string head("\x80\x04(", 3);
  for (const std::string& value : {std::string("]"), std::string("}"), std::string("\x8c\0", 2)}) {
    std::string bytes = head;
    for (size_t i = 0; i < kValues; ++i) {
      bytes += value;
    }
    const Result<SnapshotFile> file = ReadSnapshot(bytes + "t.", "s");
    EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
    EXPECT_NE(file.status().message().find("times its size"), std::string::npos)
        << file.status().message();
  }
  // A put far from any other, as no pickler writes it.
  EXPECT_EQ(ReadSnapshot(std::string("\x80\x04]r\xff\xff\xff\xff.", 9), "s").status().code(),
            StatusCode::kBadFile);
}

TEST(Snapshots, the_simulation_has_the_recorded_peaks_of_real_runs) {
  const std::vector<std::string> paths = prism::testing::MemoryRecordings();
  if (paths.empty()) {
    GTEST_SKIP() << "the recordings are not beside the sources";
  }
  size_t compared = 0;
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const auto recording = prism::testing::ReadMemoryRecording(path);
    ASSERT_TRUE(recording.has_value());
    MemorySnapshot snapshot;
    snapshot.segments = recording->after;
    for (const replayer::AllocatorEvent& event : recording->events) {
      snapshot.events.push_back({event, 0, ""});
    }
    const SnapshotFile file = Read(snapshot);
    const SnapshotHistory history = HistoryOf(file.devices.at(0));
    EXPECT_EQ(history.inconsistent, 0);
    std::map<std::string, std::string> expected;
    for (const auto& [column, value] : prism::testing::ExpectedOf(path)) {
      expected[column] = value;
    }
    EXPECT_EQ(history.peak_reserved_bytes, std::stoll(expected.at("peak_reserved")));
    if (expected.at("starts_empty") == "yes") {
      const SimulatedMemory simulated = Simulate(file.devices[0], history, {});
      EXPECT_EQ(simulated.peak_reserved_bytes, std::stoll(expected.at("peak_reserved")));
      EXPECT_EQ(simulated.peak_active_bytes, std::stoll(expected.at("peak_active")));
      EXPECT_EQ(simulated.reserved_bytes, std::stoll(expected.at("final_reserved")));
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
}

}  // namespace
}  // namespace prism::launch
