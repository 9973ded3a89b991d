// Allocator histories of real runs (format memtrace-1), if the data folder is beside the sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replayer/memory/allocator_trace.h"

namespace prism::testing {

struct MemoryRecording {
  std::vector<replayer::SegmentState> before;
  std::vector<replayer::AllocatorEvent> events;  // in recorded order
  std::vector<replayer::SegmentState> after;
};

// Paths of the recordings, ordered; empty where the data is absent.
std::vector<std::string> MemoryRecordings();

// nullopt when a line cannot be read.
std::optional<MemoryRecording> ReadMemoryRecording(const std::string& path);

// The row of expected.csv for a recording: column → value.
std::vector<std::pair<std::string, std::string>> ExpectedOf(const std::string& path);

}  // namespace prism::testing
