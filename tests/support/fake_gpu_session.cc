// The session of the virtual device when it simulates a real GPU under the shim: no records are
// sent; what arrives is written as lines to the file PRISM_FAKE_GPU_LOG. The profile is that of the
// process's channel, if it has one, with the memory that FAKE_GPU_BYTES says, and one device;
// without a channel it has as many as FAKE_GPU_COUNT says.
#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "shim/channel/channel.h"
#include "shim/clock/host_meter.h"
#include "shim/clock/watchdogs.h"
#include "shim/issued_ops.h"
#include "shim/observer/observer_loader.h"
#include "shim/session.h"
#include "shim/spawned_process.h"
#include "shim/standalone_config.h"
#include "tests/support/drawn_times.h"
#include "tests/support/fake_cupti.h"
#include "tests/support/op_line.h"

namespace prism::shim {
namespace {

struct Log {
  std::mutex mutex;
  std::FILE* file = nullptr;
  std::map<std::pair<channel::Table, std::string>, uint32_t> ids;
  std::map<uint32_t, std::string> kernels;
};

Log& Get() {
  static Log* const log = [] {
    auto* const made = new Log();
    const char* const path = getenv("PRISM_FAKE_GPU_LOG");
    made->file = path == nullptr ? nullptr : std::fopen(path, "a");
    return made;
  }();
  return *log;
}

thread_local uint32_t thread_context = 0;

}  // namespace

const channel::Config& SessionConfig() {
  static const channel::Config config = [] {
    const char* const text = getenv("PRISM_CHANNEL_FD");
    channel::Header* const header =
        text == nullptr ? nullptr
                        : channel::MapChannel(static_cast<int>(strtol(text, nullptr, 10)));
    channel::Config made = header == nullptr ? StandaloneConfig() : header->config;
    made.mode = channel::Mode::kStandalone;
    const char* const count = header == nullptr ? getenv("FAKE_GPU_COUNT") : nullptr;
    made.device.device_count =
        count == nullptr ? 1 : static_cast<int32_t>(strtol(count, nullptr, 10));
    if (const char* const bytes = getenv("FAKE_GPU_BYTES")) {
      made.device.memory_bytes = strtoll(bytes, nullptr, 10);
    }
    return made;
  }();
  return config;
}

channel::Mode SessionMode() {
  return channel::Mode::kStandalone;
}

void Emit(channel::Record record) {
  Log& log = Get();
  const std::lock_guard<std::mutex> lock(log.mutex);
  if (const std::string op = testing::DrawnOp(record, log.kernels); !op.empty()) {
    testing::RunDrawnOp(op, record.kind);
  }
  if (log.file == nullptr) {
    return;
  }
  const std::string line = testing::OpLine(record, log.kernels);
  if (!line.empty()) {
    std::fprintf(log.file, "%s\n", line.c_str());
    std::fflush(log.file);
  }
}

void Emit(channel::Record record, const void* /*payload*/, uint32_t /*payload_bytes*/) {
  Emit(record);
}

Reply Request(channel::Record record) {
  Emit(record);
  return {0, 0};
}

uint32_t DefineOnce(channel::Table table, std::string_view payload) {
  Log& log = Get();
  const std::lock_guard<std::mutex> lock(log.mutex);
  const auto next = static_cast<uint32_t>(log.ids.size() + 1);
  const auto [entry, is_new] = log.ids.try_emplace({table, std::string(payload)}, next);
  if (table == channel::Table::kKernelName) {
    log.kernels.try_emplace(entry->second, payload);
  }
  return entry->second;
}

void SetThreadContext(uint32_t context) {
  thread_context = context;
}

uint32_t ThreadContext() {
  return thread_context;
}

void NoteCapturedOp(uint32_t /*number*/) {
  testing::MakeGraphNode();
}

void EnterShim() {
}

void LeaveShim() {
}

void SetThreadInGraph(bool /*in_graph*/) {
}

void Count(std::string_view /*counter*/, int64_t /*n*/) {
}

void Refuse(const char* function_name) {
  std::fprintf(stderr, "fake GPU: %s refuses\n", function_name);
}

bool WaitsUntilAsked() {
  return false;
}

void LoadObserver() {
}

void EndIfSpawnedForOtherRank() {
}

void SpawnOnlyOwnProcess() {
}

}  // namespace prism::shim
