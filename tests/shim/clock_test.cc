// The program's clocks under the preload: starts clock_program with a worker that answers each
// synchronisation ten seconds of virtual time later.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "shim/channel/channel.h"
#include "tests/support/channel_drain.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

constexpr int64_t kNsPerSecond = 1'000'000'000;

struct Outcome {
  std::map<std::string, int64_t> shown;
  std::vector<int64_t> gaps_us;
  double real_seconds = 0;
  int exit_code = -1;
};

pid_t Start(int channel_descriptor, int output) {
  const pid_t process = fork();
  if (process == 0) {
    dup2(output, STDOUT_FILENO);
    setenv("LD_PRELOAD", PRISM_SHIM_LIBRARY, 1);
    setenv("PRISM_CHANNEL_FD", std::to_string(channel_descriptor).c_str(), 1);
    execl(PRISM_CLOCK_PROGRAM, PRISM_CLOCK_PROGRAM, nullptr);
    _exit(127);
  }
  return process;
}

// Follows the host time as the process advances it and answers each synchronisation.
void Serve(channel::Consumer* consumer, pid_t process, Outcome* outcome) {
  int64_t host_time = 0;
  outcome->exit_code = testing::DrainChannel(
      consumer, process, [&](const Record& record, std::span<const std::byte>) {
        if (record.kind == RecordKind::kHostGap) {
          host_time += record.host_gap.duration_ns;
          outcome->gaps_us.push_back(record.host_gap.duration_ns / 1'000);
        }
        if (record.kind == RecordKind::kSync) {
          host_time += 10 * kNsPerSecond;
          consumer->Reply(record.sync.request,
                          {.status = 0, .host_time_ns = host_time, .value_ns = 0});
        }
      });
}

Outcome RunClockProgram(channel::Mode mode) {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = mode;
  config.world_size = 1;
  config.sandbox_rank_count = 1;
  config.device.device_count = 1;
  config.device.memory_bytes = int64_t{1} << 30;
  channel::Consumer consumer(config);
  EXPECT_TRUE(consumer.valid());
  std::array<int, 2> ends = {};
  EXPECT_EQ(pipe(ends.data()), 0);
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  const pid_t process = Start(consumer.descriptor(), ends[1]);
  close(ends[1]);
  Serve(&consumer, process, &outcome);
  waitpid(process, nullptr, 0);
  outcome.real_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::string text;
  std::array<char, 4096> buffer = {};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  std::istringstream lines(text);
  std::string name;
  for (int64_t value = 0; lines >> name >> value;) {
    outcome.shown[name] = value;
  }
  return outcome;
}

// What holds for every clock: lengths of sleeps to the nanosecond, loops that end.
void ExpectSleeps(Outcome* outcome) {
  std::vector<int64_t> gaps_us = {3'000'000, 250'000, 1'500'000, 2'000'000};
  gaps_us.insert(gaps_us.end(), static_cast<size_t>(outcome->shown["sleeps_until_300_ms"]), 50'000);
  gaps_us.insert(gaps_us.end(), 3, 50);
  gaps_us.insert(gaps_us.end(), static_cast<size_t>(outcome->shown["watchdog_asked"]), 100'000);
  gaps_us.push_back(3'000'000);
  EXPECT_EQ(outcome->gaps_us, gaps_us);
  // With a running clock, a loop takes fewer sleeps if the machine is late.
  for (const char* const loop : {"sleeps_until_300_ms", "sleeps_at_start", "forked_sleeps",
                                 "started_sleeps", "watcher_sleeps_until_60_ms"}) {
    EXPECT_GE(outcome->shown[loop], 1) << loop;
    EXPECT_LE(outcome->shown[loop], 6) << loop;
  }
  EXPECT_EQ(outcome->shown["forked_for_real"], 1);
  EXPECT_EQ(outcome->shown["started_for_real"], 1);
  EXPECT_GE(outcome->shown["sleeps_until_child_ends"], 1);
  EXPECT_LT(outcome->shown["sleeps_until_child_ends"], 1000);
  EXPECT_GE(outcome->shown["child_awaited_for"], 80);
  EXPECT_GE(outcome->shown["watcher_sleep"], 30);
  EXPECT_GE(outcome->shown["watcher_wait_for"], 20);
  EXPECT_GE(outcome->shown["watchdog_looks"], 1);
  EXPECT_EQ(outcome->shown["backward_thread_released"], 1);
}

TEST(Clock, shows_virtual_time_in_emulation) {
  Outcome outcome = RunClockProgram(channel::Mode::kEmulate);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.shown["monotonic"], 10'000);
  EXPECT_EQ(outcome.shown["sleeps_until_300_ms"], 6);
  EXPECT_EQ(outcome.shown["sleeps_at_start"], 3);
  EXPECT_EQ(outcome.shown["watcher_sleeps_until_60_ms"], 3);
  EXPECT_EQ(outcome.shown["time"], 10);
  EXPECT_EQ(outcome.shown["gettimeofday"], 10);
  EXPECT_EQ(outcome.shown["cpu_below_a_second"], 1);
  EXPECT_EQ(outcome.shown["sleep"], 3'000);
  EXPECT_EQ(outcome.shown["usleep"], 250);
  EXPECT_EQ(outcome.shown["sleep_for"], 1'500);
  EXPECT_EQ(outcome.shown["absolute_sleep"], 2'000);
  EXPECT_EQ(outcome.shown["wait_for"], 20);
  EXPECT_EQ(outcome.shown["system_wait"], 20);
  EXPECT_EQ(outcome.shown["future_wait_for"], 20);
  EXPECT_EQ(outcome.shown["sem_timedwait_fails"], 1);
  for (const char* const wait :
       {"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "epoll_pwait2"}) {
    EXPECT_EQ(outcome.shown[wait], 20) << wait;
  }
  EXPECT_EQ(outcome.shown["poll_of_ready"], 0);
  EXPECT_EQ(outcome.shown["spin"], 20);
  EXPECT_LT(outcome.shown["watchdog_looked_after"], 1'000);
  ExpectSleeps(&outcome);
  EXPECT_LT(outcome.real_seconds, 5);  // of some 27 virtual seconds
}

TEST(Clock, is_real_while_recording_and_ahead_by_what_was_slept) {
  Outcome outcome = RunClockProgram(channel::Mode::kRecord);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_LT(outcome.shown["monotonic"], 1'000);
  EXPECT_GE(outcome.shown["sleep"], 3'000);
  EXPECT_GE(outcome.shown["absolute_sleep"], 2'000);
  EXPECT_GE(outcome.shown["wait_for"], 20);
  EXPECT_LT(outcome.shown["watchdog_looked_after"], 1'000);
  EXPECT_LT(outcome.real_seconds, 5);
  ExpectSleeps(&outcome);
}

// The GPU continues while the rank sleeps, so it must really sleep; ops also end for watchdogs.
TEST(Clock, is_real_on_a_gpu_and_sleeps_take_their_time) {
  Outcome outcome = RunClockProgram(channel::Mode::kDevice);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_GE(outcome.shown["sleep"], 3'000);
  EXPECT_GE(outcome.real_seconds, 9);  // of 10 of sleep
  EXPECT_GE(outcome.shown["watchdog_looks"], 2);
  ExpectSleeps(&outcome);
}

}  // namespace
}  // namespace prism::shim
