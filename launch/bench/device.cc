#include "launch/bench/device.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "shim/channel/channel.h"

namespace prism::launch {
namespace {

// About half a second in total. The best of a few repetitions counts: on a shared machine the
// others measure its neighbours.
constexpr int kLaunches = 500'000;
constexpr int kRepetitions = 5;
constexpr int kKernels = 32;

// The runtime's ABI, as a program compiled by nvcc calls it; no CUDA header is needed here.
struct Dim3 {
  unsigned int x, y, z;
};
using RegisterFunction =
    void (*)(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
using LaunchKernel = int (*)(const void*, Dim3, Dim3, void**, size_t, void*);

double TimeLaunches(LaunchKernel launch, const std::array<char, kKernels>& stubs) {
  double best_ns = std::numeric_limits<double>::max();
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    for (int index = 0; index < kLaunches / kRepetitions; ++index) {
      launch(&stubs[static_cast<size_t>(index % kKernels)], {128, 1, 1}, {256, 1, 1}, nullptr, 0,
             nullptr);
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, taken.count() / (kLaunches / kRepetitions));
  }
  return best_ns;
}

// Runs in the child and ends it. The number goes through the pipe; nothing is sent when the shim is
// unusable.
[[noreturn]] void RunChild(const std::string& shim_path, int result_descriptor) {
  void* const shim = dlopen(shim_path.c_str(), RTLD_NOW);
  if (shim == nullptr) {
    _exit(1);
  }
  const auto registers = reinterpret_cast<RegisterFunction>(dlsym(shim, "__cudaRegisterFunction"));
  const auto launch = reinterpret_cast<LaunchKernel>(dlsym(shim, "cudaLaunchKernel"));
  if (registers == nullptr || launch == nullptr) {
    _exit(1);
  }
  static std::array<char, kKernels> stubs{};
  static std::array<std::string, kKernels> names;
  for (size_t index = 0; index < kKernels; ++index) {
    names[index] = fmt::format("bench_kernel_{}", index);
    registers(nullptr, &stubs[index], nullptr, names[index].c_str(), -1, nullptr, nullptr, nullptr,
              nullptr, nullptr);
  }
  const double cost_ns = TimeLaunches(launch, stubs);
  const bool written =
      write(result_descriptor, &cost_ns, sizeof(cost_ns)) == ssize_t{sizeof(cost_ns)};
  // exit, not _exit: the shim marks the end of the records in an exit handler.
  std::exit(written ? 0 : 1);
}

bool HasEnded(pid_t process) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process;
}

void Drain(channel::Consumer* consumer, pid_t process) {
  channel::Record record = {};
  std::span<const std::byte> payload;
  for (;;) {
    while (consumer->TryPop(&record, &payload)) {
      if (record.kind == channel::RecordKind::kExit) {
        return;
      }
    }
    if (!consumer->WaitForRecord(100'000'000) && HasEnded(process)) {
      return;
    }
  }
}

channel::Config MakeConfig() {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = channel::Mode::kRecord;
  config.world_size = 1;
  config.sandbox_rank_count = 1;
  config.device.device_count = 1;
  config.device.memory_bytes = int64_t{1} << 30;
  return config;
}

// One child; `consumer` is null for a measurement without a worker.
std::optional<double> MeasureIn(const std::string& shim_path, channel::Consumer* consumer) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) {
    return std::nullopt;
  }
  const pid_t process = fork();
  if (process == 0) {
    close(pipe_ends[0]);
    if (consumer != nullptr) {
      setenv("PRISM_CHANNEL_FD", std::to_string(consumer->descriptor()).c_str(), 1);
    } else {
      unsetenv("PRISM_CHANNEL_FD");
    }
    RunChild(shim_path, pipe_ends[1]);
  }
  close(pipe_ends[1]);
  if (process > 0 && consumer != nullptr) {
    Drain(consumer, process);
  }
  double cost_ns = 0;
  const bool got = read(pipe_ends[0], &cost_ns, sizeof(cost_ns)) == ssize_t{sizeof(cost_ns)};
  close(pipe_ends[0]);
  if (process > 0) {
    waitpid(process, nullptr, 0);
  }
  return got ? std::optional(cost_ns) : std::nullopt;
}

}  // namespace

Result<LaunchCost> MeasureLaunchCost(const std::string& shim_path) {
  const std::optional<double> standalone_ns = MeasureIn(shim_path, nullptr);
  channel::Consumer consumer(MakeConfig());
  if (!consumer.valid()) {
    return Status(StatusCode::kEnvironment,
                  "cannot create shared memory for the channel (memfd_create)");
  }
  const std::optional<double> record_ns = MeasureIn(shim_path, &consumer);
  if (!standalone_ns.has_value() || !record_ns.has_value()) {
    return Status(StatusCode::kEnvironment,
                  fmt::format("cannot load the shim {}; run ./run.sh, which builds it", shim_path));
  }
  return LaunchCost{*standalone_ns, *record_ns, kLaunches};
}

}  // namespace prism::launch
