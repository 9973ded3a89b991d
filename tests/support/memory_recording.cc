#include "tests/support/memory_recording.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace prism::testing {
namespace {

using replayer::AllocatorAction;
using replayer::BlockState;
using replayer::PoolKind;
using replayer::SegmentState;

std::string Unpack(const std::string& path) {
  const std::string command = "gzip -dc '" + path + "'";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char buffer[1 << 16];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof(buffer), pipe.get())) > 0;) {
    text.append(buffer, got);
  }
  return text;
}

bool ReadSegment(std::istringstream* line, std::vector<SegmentState>* segments) {
  SegmentState segment;
  std::string pool;
  *line >> segment.address >> segment.bytes >> pool >> segment.stream;
  segment.pool = pool == "s" ? PoolKind::kSmall : PoolKind::kLarge;
  segments->push_back(segment);
  return !line->fail();
}

bool ReadBlock(std::istringstream* line, std::vector<SegmentState>* segments) {
  replayer::BlockInfo block;
  std::string state;
  *line >> block.address >> block.bytes >> state >> block.requested_bytes;
  block.state = state == "A" ? BlockState::kAllocated
                             : (state == "P" ? BlockState::kPendingFree : BlockState::kFree);
  if (line->fail() || segments->empty()) {
    return false;
  }
  if (block.state == BlockState::kFree) {
    block.requested_bytes = 0;  // torch leaves the last request there
  }
  segments->back().blocks.push_back(block);
  return true;
}

bool ReadEvent(char kind, std::istringstream* line, MemoryRecording* recording) {
  constexpr std::string_view kKinds = "aqfSF";
  constexpr AllocatorAction kActions[] = {
      AllocatorAction::kAlloc, AllocatorAction::kFreeRequested, AllocatorAction::kFreeCompleted,
      AllocatorAction::kSegmentAlloc, AllocatorAction::kSegmentFree};
  const size_t index = kKinds.find(kind);
  if (index == std::string_view::npos) {
    return false;
  }
  replayer::AllocatorEvent event;
  event.action = kActions[index];
  *line >> event.address >> event.bytes >> event.stream;
  recording->events.push_back(event);
  return !line->fail();
}

bool ReadLine(const std::string& text, MemoryRecording* recording) {
  std::istringstream line(text.substr(1));
  switch (text.front()) {
    case '#':
      return true;
    case 'I':
      return ReadSegment(&line, &recording->before);
    case 'i':
      return ReadBlock(&line, &recording->before);
    case 'E':
      return ReadSegment(&line, &recording->after);
    case 'e':
      return ReadBlock(&line, &recording->after);
    default:
      return ReadEvent(text.front(), &line, recording);
  }
}

}  // namespace

std::vector<std::string> MemoryRecordings() {
  const std::filesystem::path folder = PRISM_MEMORY_SNAPSHOTS;
  std::vector<std::string> paths;
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().string().ends_with(".memtrace.gz")) {
        paths.push_back(entry.path().string());
      }
    }
  }
  std::ranges::sort(paths);
  return paths;
}

std::optional<MemoryRecording> ReadMemoryRecording(const std::string& path) {
  MemoryRecording recording;
  std::istringstream text(Unpack(path));
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || !ReadLine(line, &recording)) {
      return std::nullopt;
    }
  }
  return recording;
}

std::vector<std::pair<std::string, std::string>> ExpectedOf(const std::string& path) {
  const std::string file = std::filesystem::path(path).filename().string();
  const std::string name = file.substr(0, file.find(".memtrace.gz"));
  std::ifstream table(std::filesystem::path(PRISM_MEMORY_SNAPSHOTS) / "expected.csv");
  std::string header;
  std::getline(table, header);
  for (std::string row; std::getline(table, row);) {
    if (!row.starts_with(name + ",")) {
      continue;
    }
    std::vector<std::pair<std::string, std::string>> fields;
    std::istringstream columns(header);
    std::istringstream values(row);
    for (std::string column, value;
         std::getline(columns, column, ',') && std::getline(values, value, ',');) {
      fields.emplace_back(column, value);
    }
    return fields;
  }
  return {};
}

}  // namespace prism::testing
