// libtorch and its ProcessGroupNCCL under the shim with a worker: what the observer adds to the
// stream (framework ops, ranges, groups, blocks), recorded to a fragment; and the same program's
// own clock in emulation.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shim/channel/channel.h"
#include "slicer/record/recorder.h"
#include "tests/support/channel_drain.h"
#include "tests/support/preload.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;
using graph::OpKind;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kGapNs = 5'000'000;
constexpr uint32_t kRank = 1;

channel::Config MakeConfig(channel::Mode mode) {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = mode;
  config.rank = static_cast<int32_t>(kRank);
  config.world_size = 8;
  config.sandbox_rank_count = 1;
  config.sandbox_ranks[0] = static_cast<int32_t>(kRank);
  config.device.device_count = 8;
  config.device.compute_major = 9;
  config.device.sm_count = 132;
  config.device.memory_bytes = int64_t{80} << 30;
  config.device.l2_bytes = 50 << 20;
  config.device.shared_memory_per_sm = 228 << 10;
  config.device.shared_memory_per_block_optin = 227 << 10;
  config.device.segments_ascending = 1;
  config.nccl = {.collective_channels = 24,
                 .p2p_channels = 32,
                 .p2p_channels_per_peer = 32,
                 .nvls_channels = 16,
                 .granularity_bytes = 2 << 20,
                 .local_bytes_per_s = 0,
                 .network_bytes_per_s = 0};
  return config;
}

pid_t Start(int channel_descriptor, int output) {
  const std::string preload = testing::PreloadOf(PRISM_LIBRARY_DIR);
  const pid_t process = fork();
  if (process == 0) {
    dup2(output, STDOUT_FILENO);
    setenv("LD_PRELOAD", preload.c_str(), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("PRISM_CHANNEL_FD", std::to_string(channel_descriptor).c_str(), 1);
    execl(PRISM_TORCH_PROGRAM, PRISM_TORCH_PROGRAM, nullptr);
    _exit(127);
  }
  return process;
}

// Runs the program; `take(record, payload)` sees every record. Returns its lines as numbers.
template <typename Take>
std::vector<int64_t> RunProgram(channel::Consumer* consumer, const Take& take) {
  std::array<int, 2> ends = {};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t process = Start(consumer->descriptor(), ends[1]);
  close(ends[1]);
  EXPECT_EQ(testing::DrainChannel(consumer, process, take), 0);
  waitpid(process, nullptr, 0);
  std::string text(4096, '\0');
  const ssize_t got = read(ends[0], text.data(), text.size());
  close(ends[0]);
  std::istringstream lines(text.substr(0, got > 0 ? static_cast<size_t>(got) : 0));
  std::vector<int64_t> numbers;
  for (int64_t number = 0; lines >> number;) {
    numbers.push_back(number);
  }
  return numbers;
}

Result<graph::Fragment> RecordProgram() {
  channel::Consumer consumer(MakeConfig(channel::Mode::kRecord));
  slicer::Recorder recorder({.rank = Rank(kRank)});
  Status status = OkStatus();
  RunProgram(&consumer, [&](const Record& record, std::span<const std::byte> payload) {
    if (status.ok()) {
      status = recorder.Consume(record, payload);
    }
  });
  PRISM_RETURN_IF_ERROR(status);
  return recorder.Finish();
}

std::vector<std::string> FrameworkOps(const graph::Fragment& fragment) {
  std::vector<std::string> ops;
  for (const graph::KernelSignature& signature : fragment.signatures) {
    ops.push_back(fragment.strings[signature.framework_op.value()]);
  }
  return ops;
}

int64_t CountOf(const graph::Program& program, OpKind kind) {
  return std::count(program.kind.begin(), program.kind.end(), kind);
}

TEST(Observer, records_a_training_program) {
  const Result<graph::Fragment> fragment = RecordProgram();
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_THAT(FrameworkOps(*fragment), Contains("aten::mm"));
  EXPECT_THAT(FrameworkOps(*fragment), Contains("aten::sub_"));
  EXPECT_THAT(FrameworkOps(*fragment), ::testing::Not(Contains("")));
  const auto product = std::find_if(
      fragment->signatures.begin(), fragment->signatures.end(), [&](const auto& signature) {
        return fragment->strings[signature.framework_op.value()] == "aten::mm";
      });
  ASSERT_NE(product, fragment->signatures.end());
  ASSERT_EQ(product->inputs.size(), 2U);
  EXPECT_THAT(product->inputs[0].dims, ElementsAre(16, 64));
  EXPECT_EQ(product->inputs[0].dtype, DataType::kBfloat16);
  EXPECT_EQ(product->matmul.m * product->matmul.n * product->matmul.k, 16 * 64 * 32);

  const graph::Program& program = fragment->program;
  EXPECT_EQ(CountOf(program, OpKind::kMarker), 8);  // begins and ends of four ranges
  EXPECT_EQ(CountOf(program, OpKind::kCollective), 1);
  EXPECT_EQ(CountOf(program, OpKind::kDeviceSync), 1);
  ASSERT_EQ(fragment->comm_slots.size(), 1U);
  EXPECT_EQ(fragment->comm_slots[0].name, "dp");
  EXPECT_THAT(fragment->comm_slots[0].members, ElementsAre(Rank(1), Rank(3), Rank(5), Rank(7)));
  ASSERT_EQ(program.collectives.size(), 1U);
  EXPECT_EQ(program.collectives[0].bytes, 64 * 32 * 2);
  const auto gap = std::find(program.kind.begin(), program.kind.end(), OpKind::kHostGap);
  ASSERT_NE(gap, program.kind.end());
  EXPECT_EQ(program.value[static_cast<size_t>(gap - program.kind.begin())], kGapNs);
}

TEST(Observer, blocks_sum_to_the_allocators_own_peak) {
  const Result<graph::Fragment> fragment = RecordProgram();
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  for (const graph::Warning& warning : fragment->warnings) {
    EXPECT_NE(warning.code, "allocated_bytes_differ") << warning.example;
    EXPECT_NE(warning.code, "unknown_blocks_freed") << warning.example;
    EXPECT_NE(warning.code, "observer_missing");
  }
  int64_t sum = 0;
  for (const graph::MemoryClass& memory_class : fragment->memory.at_peak) {
    sum += memory_class.bytes;
    if (memory_class.name == "parameters") {
      EXPECT_EQ(memory_class.bytes, 64 * 32 * 2);
    }
  }
  EXPECT_GT(sum, 0);
  EXPECT_EQ(sum, fragment->memory.peak_allocated);
  EXPECT_GE(fragment->memory.peak_reserved, fragment->memory.peak_allocated);
}

// The worker answers that each synchronisation ends a second after the previous one.
TEST(Observer, programs_clock_shows_the_answers) {
  channel::Consumer consumer(MakeConfig(channel::Mode::kEmulate));
  int64_t host_time = 0;
  const std::vector<int64_t> elapsed =
      RunProgram(&consumer, [&](const Record& record, std::span<const std::byte> /*payload*/) {
        if (record.kind == RecordKind::kSync) {
          host_time += kNsPerSecond;
          consumer.Reply(record.sync.request,
                         {.status = 0, .host_time_ns = host_time, .value_ns = 0});
        } else if (record.kind == RecordKind::kQueryEvent) {
          consumer.Reply(record.event.request,
                         {.status = 0, .host_time_ns = host_time, .value_ns = 0});
        } else if (record.kind == RecordKind::kElapsed) {
          consumer.Reply(record.elapsed.request,
                         {.status = 0, .host_time_ns = host_time, .value_ns = 0});
        }
      });
  ASSERT_EQ(elapsed.size(), 3U);
  EXPECT_EQ(elapsed[1], kNsPerSecond);
  EXPECT_EQ(elapsed[2], kNsPerSecond);
}

}  // namespace
}  // namespace prism::shim
