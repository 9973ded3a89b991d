// libtorch, unmodified, on the virtual device: starts device_torch_program under the preload, with
// and without a worker, and compares what it prints and what arrives.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shim/channel/channel.h"
#include "tests/support/channel_drain.h"
#include "tests/support/preload.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Child {
  pid_t process = -1;
  int output = -1;
};

// `descriptor` is the channel's, -1 for none.
Child Start(int descriptor) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) {
    return {};
  }
  const std::string preload = testing::PreloadOf(PRISM_LIBRARY_DIR);
  const pid_t process = fork();
  if (process == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    close(pipe_ends[0]);
    setenv("LD_PRELOAD", preload.c_str(), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    if (descriptor >= 0) {
      setenv("PRISM_CHANNEL_FD", std::to_string(descriptor).c_str(), 1);
    }
    execl(PRISM_TORCH_PROGRAM, PRISM_TORCH_PROGRAM, nullptr);
    _exit(127);
  }
  close(pipe_ends[1]);
  return {process, pipe_ends[0]};
}

std::vector<std::string> ReadLines(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(descriptor, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(descriptor);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

int ExitCode(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Recording {
  std::map<RecordKind, int> counts;
  std::map<uint32_t, std::string> kernel_names;
  std::set<std::string> outside_names;
  std::vector<Record> out_of_memory;
  std::vector<Record> matmuls;
  std::set<uint16_t> threads;
  int exit_code = -1;
};

void Take(const Record& record, std::span<const std::byte> payload, Recording* recording) {
  ++recording->counts[record.kind];
  const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
  if (record.kind == RecordKind::kDefine && record.define.table == channel::Table::kKernelName) {
    recording->kernel_names[record.define.id] = text;
  }
  if (record.kind == RecordKind::kDefine && record.define.table == channel::Table::kOutsideName) {
    recording->outside_names.insert(text);
  }
  if (record.kind == RecordKind::kKernel || record.kind == RecordKind::kMatmul) {
    recording->threads.insert(record.thread);
  }
  if (record.kind == RecordKind::kKernel) {
    ASSERT_TRUE(recording->kernel_names.contains(record.kernel.name));
    EXPECT_GT(record.kernel.grid[0], 0U);
    EXPECT_GT(record.kernel.block[0], 0U);
  }
  if (record.kind == RecordKind::kMatmul) {
    recording->matmuls.push_back(record);
  }
  if (record.kind == RecordKind::kOutOfMemory) {
    recording->out_of_memory.push_back(record);
  }
  if (record.kind == RecordKind::kExit) {
    recording->exit_code = record.exit.code;
  }
}

// Answers like an infinitely fast device.
void Answer(const Record& record, channel::Consumer* consumer) {
  switch (record.kind) {
    case RecordKind::kSync:
      consumer->Reply(record.sync.request, {0, 0, 0});
      break;
    case RecordKind::kQueryEvent:
      consumer->Reply(record.event.request, {0, 0, 0});
      break;
    case RecordKind::kElapsed:
      consumer->Reply(record.elapsed.request, {0, 0, 2'500'000});
      break;
    default:
      break;
  }
}

// Takes records until the process has announced its exit, or is gone.
Recording Drain(channel::Consumer* consumer, pid_t process, bool answers) {
  Recording recording;
  testing::DrainChannel(consumer, process,
                        [&](const Record& record, std::span<const std::byte> payload) {
                          Take(record, payload, &recording);
                          if (answers) {
                            Answer(record, consumer);
                          }
                        });
  return recording;
}

channel::Config MakeConfig(channel::Mode mode) {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = mode;
  config.world_size = 1;
  config.sandbox_rank_count = 1;
  // An A100-like part, so that a default cannot pass for the profile.
  std::snprintf(config.device.name, sizeof(config.device.name), "Test GPU");
  config.device.compute_major = 8;
  config.device.compute_minor = 0;
  config.device.sm_count = 108;
  config.device.device_count = 2;
  config.device.memory_bytes = int64_t{40} << 30;
  config.device.context_bytes = int64_t{300} << 20;
  config.device.l2_bytes = int64_t{40} << 20;
  config.device.shared_memory_per_sm = 164 << 10;
  config.device.shared_memory_per_block_optin = 163 << 10;
  return config;
}

constexpr const char* kCopyLine = "copy 2 3 item 5 zero 0";

TEST(DeviceTorch, runs_without_a_worker_on_the_default_profile) {
  const Child child = Start(-1);
  EXPECT_THAT(ReadLines(child.output),
              ElementsAre("device NVIDIA H100 80GB HBM3 sm 132 capability 9.0 count 8", kCopyLine,
                          "trained gradient 1", "events ready 1 elapsed 0.0005",
                          "error CUDA out of memory. Tried to allocate 90.00 GiB", "later name 1"));
  EXPECT_EQ(ExitCode(child.process), 0);
}

TEST(DeviceTorch, records_what_the_program_issues) {
  channel::Consumer consumer(MakeConfig(channel::Mode::kRecord));
  ASSERT_TRUE(consumer.valid());
  const Child child = Start(consumer.descriptor());
  const Recording recording = Drain(&consumer, child.process, false);
  EXPECT_THAT(ReadLines(child.output),
              ElementsAre("device Test GPU sm 108 capability 8.0 count 2", kCopyLine,
                          "trained gradient 1", "events ready 1 elapsed 0.0005",
                          "error CUDA out of memory. Tried to allocate 90.00 GiB", "later name 1"));
  EXPECT_EQ(ExitCode(child.process), 0);
  EXPECT_EQ(recording.exit_code, 0);
  EXPECT_THAT(recording.outside_names, ::testing::Contains("context"));
  EXPECT_THAT(recording.kernel_names,
              ::testing::Contains(::testing::Pair(
                  ::testing::_, HasSubstr("at::native::vectorized_elementwise_kernel"))));
  // Two steps of one layer: forward, and the weight's gradient; the input needs none.
  ASSERT_EQ(recording.matmuls.size(), 4U);
  EXPECT_EQ(int64_t{recording.matmuls[0].matmul.m} * recording.matmuls[0].matmul.n *
                recording.matmuls[0].matmul.k,
            16 * 64 * 32);
  EXPECT_EQ(recording.counts.at(RecordKind::kEventRecord), 2);
  EXPECT_EQ(recording.counts.at(RecordKind::kEventWait), 1);
  ASSERT_FALSE(recording.out_of_memory.empty());
  EXPECT_EQ(recording.out_of_memory[0].segment.bytes, int64_t{90} << 30);
  // The main thread and autograd's.
  EXPECT_EQ(recording.threads, (std::set<uint16_t>{0, 1}));
}

TEST(DeviceTorch, times_come_from_the_worker_in_emulation) {
  channel::Consumer consumer(MakeConfig(channel::Mode::kEmulate));
  ASSERT_TRUE(consumer.valid());
  const Child child = Start(consumer.descriptor());
  const Recording recording = Drain(&consumer, child.process, true);
  EXPECT_THAT(ReadLines(child.output), ::testing::Contains("events ready 1 elapsed 2.5"));
  EXPECT_EQ(ExitCode(child.process), 0);
  EXPECT_EQ(recording.exit_code, 0);
}

TEST(DeviceTorch, an_abort_ends_the_program) {
  channel::Consumer consumer(MakeConfig(channel::Mode::kEmulate));
  ASSERT_TRUE(consumer.valid());
  const Child child = Start(consumer.descriptor());
  ASSERT_TRUE(consumer.WaitForRecord(60'000'000'000));
  consumer.Abort();
  ReadLines(child.output);
  EXPECT_EQ(ExitCode(child.process), 1);
}

}  // namespace
}  // namespace prism::shim
