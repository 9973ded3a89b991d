// Host time as it is measured, of a program whose host time is known: it computes as long before
// each launch as it was seen to compute without one. Other programs disturb both, but not each
// time.
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "shim/channel/channel.h"
#include "tests/support/channel_drain.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

constexpr int kLaunches = 2000;
constexpr int kRounds = 5;
constexpr double kToleratedNs = 100;
constexpr std::array<int, 2> kWork = {300, 5000};  // turns before a launch: about 0.3 and 5 us

struct Dim3 {
  unsigned int x, y, z;
};
using RegisterFunction =
    void (*)(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
using LaunchKernel = int (*)(const void*, Dim3, Dim3, void**, size_t, void*);

int64_t CpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void Compute(int turns) {
  volatile uint64_t value = 1;
  for (int i = 0; i < turns; ++i) {
    value = value * 3 + 1;
  }
}

// Launches with so much work before each, and says how much it was by itself, at least.
int64_t Launch(LaunchKernel launch, const char* stub, int turns) {
  int64_t known_ns = INT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin_ns = CpuNs();
    for (int i = 0; i < kLaunches; ++i) {
      Compute(turns);
    }
    known_ns = std::min(known_ns, CpuNs() - begin_ns);
    for (int i = 0; i < kLaunches; ++i) {
      Compute(turns);
      launch(stub, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr);
    }
  }
  return known_ns;
}

[[noreturn]] void RunProgram(int output) {
  void* const shim = dlopen(PRISM_SHIM_LIBRARY, RTLD_NOW);
  if (shim == nullptr) {
    _exit(1);
  }
  static std::array<char, 2> stubs = {};
  const auto registers = reinterpret_cast<RegisterFunction>(dlsym(shim, "__cudaRegisterFunction"));
  const auto launch = reinterpret_cast<LaunchKernel>(dlsym(shim, "cudaLaunchKernel"));
  for (size_t i = 0; i < kWork.size(); ++i) {
    registers(nullptr, &stubs[i], nullptr, i == 0 ? "short" : "long", -1, nullptr, nullptr, nullptr,
              nullptr, nullptr);
  }
  std::array<int64_t, kWork.size()> known = {};
  for (size_t i = 0; i < kWork.size(); ++i) {
    known[i] = Launch(launch, &stubs[i], kWork[i]);
  }
  const bool written = write(output, known.data(), sizeof(known)) == ssize_t{sizeof(known)};
  std::exit(written ? 0 : 1);
}

// By work: how much more was measured than was computed, beyond a tenth of it; the empty vector if
// the program does not run.
std::vector<double> Excess() {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = channel::Mode::kRecord;
  config.world_size = 1;
  config.sandbox_rank_count = 1;
  config.device.device_count = 1;
  config.device.memory_bytes = int64_t{1} << 30;
  config.host_cost_ns[static_cast<size_t>(RecordKind::kKernel)] = 1;
  config.measures_host = 1;
  channel::Consumer consumer(config);
  EXPECT_TRUE(consumer.valid());
  std::array<int, 2> ends = {};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process == 0) {
    setenv("PRISM_CHANNEL_FD", std::to_string(consumer.descriptor()).c_str(), 1);
    RunProgram(ends[1]);
  }
  close(ends[1]);
  std::vector<int64_t> host_ns;
  const auto take = [&](const Record& record, std::span<const std::byte>) {
    if (record.kind == RecordKind::kKernel) {
      host_ns.push_back(record.host_ns);
    }
  };
  EXPECT_EQ(testing::DrainChannel(&consumer, process, take), 0);
  waitpid(process, nullptr, 0);
  std::array<int64_t, kWork.size()> known = {};
  const bool is_read = read(ends[0], known.data(), sizeof(known)) == ssize_t{sizeof(known)};
  close(ends[0]);
  if (!is_read || host_ns.size() != kWork.size() * kRounds * kLaunches) {
    return {};
  }
  std::vector<double> excess;
  for (size_t i = 0; i < kWork.size(); ++i) {
    // Of a round the median, since the first launch is charged the work without launches too.
    std::vector<int64_t> medians;
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = host_ns.begin() + static_cast<int64_t>((i * kRounds + round) * kLaunches);
      std::nth_element(begin, begin + kLaunches / 2, begin + kLaunches);
      medians.push_back(begin[kLaunches / 2]);
    }
    const auto mean_ns = static_cast<double>(known[i]) / kLaunches;
    const auto measured_ns = static_cast<double>(*std::ranges::min_element(medians));
    excess.push_back(std::abs(measured_ns - mean_ns) - 0.1 * mean_ns);
  }
  return excess;
}

TEST(HostMeter, counts_what_the_program_computes_and_nothing_of_the_shim) {
  constexpr int kTries = 40;
  std::array<double, kWork.size()> least = {1e9, 1e9};
  for (int i = 0; i < kTries && *std::ranges::max_element(least) > kToleratedNs; ++i) {
    const std::vector<double> excess = Excess();
    ASSERT_EQ(excess.size(), kWork.size());
    for (size_t work = 0; work < kWork.size(); ++work) {
      least[work] = std::min(least[work], excess[work]);
    }
  }
  EXPECT_LE(least[0], kToleratedNs) << kWork[0] << " turns";
  EXPECT_LE(least[1], kToleratedNs) << kWork[1] << " turns";
}

}  // namespace
}  // namespace prism::shim
