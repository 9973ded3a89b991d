// A program's calls on a real device, simulated by tests/support/fake_gpu.cc: the program's calls
// reach the device, and are recorded as on the virtual device.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shim/channel/channel.h"
#include "shim/standalone_config.h"
#include "tests/support/channel_drain.h"
#include "tests/support/op_line.h"
#include "tests/support/preload.h"
#include "tests/support/scratch_folder.h"

namespace prism::shim {
namespace {

using channel::Mode;
using channel::Record;
using channel::RecordKind;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Variables = std::vector<std::pair<std::string, std::string>>;

Variables OnVirtualDevice() {
  return {{"LD_PRELOAD", testing::PreloadOf(PRISM_LIBRARY_DIR)}};
}

Variables OnFakeGpu() {
  return {{"LD_PRELOAD", testing::PreloadOf(PRISM_LIBRARY_DIR, "prism-cuda")},
          {"LD_LIBRARY_PATH", std::string(PRISM_LIBRARY_DIR) + "/prism-cuda"},
          {"PRISM_TEST_DEVICE", PRISM_FAKE_GPU}};
}

// A program with a channel; its standard output is kept in a file.
class Program {
 public:
  Program(const char* path, Mode mode, const Variables& environment)
      : consumer_(ConfigOf(mode)), output_(std::tmpfile()) {
    process_ = fork();
    if (process_ == 0) {
      dup2(fileno(output_), STDOUT_FILENO);
      for (const auto& [name, value] : environment) {
        setenv(name.c_str(), value.c_str(), 1);
      }
      setenv("OMP_NUM_THREADS", "1", 1);
      setenv("PRISM_CHANNEL_FD", std::to_string(consumer_.descriptor()).c_str(), 1);
      execl(path, path, nullptr);
      _exit(127);
    }
  }

  ~Program() { std::fclose(output_); }

  channel::Consumer& consumer() { return consumer_; }

  // Takes all records and waits for the end; returns the exit code that the program reports, -1 if
  // none.
  template <typename Take>
  int Run(const Take& take) {
    const int code = testing::DrainChannel(&consumer_, process_, take);
    waitpid(process_, &status_, 0);
    return code;
  }

  [[nodiscard]] pid_t process() const { return process_; }

  // Exit code of the process, after Run.
  [[nodiscard]] int exit_code() const { return WEXITSTATUS(status_); }

  std::string Output() const {
    std::rewind(output_);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), output_));
    return text;
  }

 private:
  static channel::Config ConfigOf(Mode mode) {
    channel::Config config = StandaloneConfig();
    config.version = channel::kProtocolVersion;
    config.mode = mode;
    return config;
  }

  channel::Consumer consumer_;
  std::FILE* output_;
  pid_t process_ = -1;
  int status_ = 0;
};

// The record of a program, as lines.
std::vector<std::string> RecordedLines(const char* path, const Variables& environment) {
  Program program(path, Mode::kRecord, environment);
  std::map<uint32_t, std::string> kernels;
  std::vector<std::string> lines;
  const int code = program.Run([&](const Record& record, std::span<const std::byte> payload) {
    if (record.kind == RecordKind::kDefine && record.define.table == channel::Table::kKernelName) {
      kernels[record.define.id] = {reinterpret_cast<const char*>(payload.data()), payload.size()};
    }
    if (std::string line = testing::OpLine(record, kernels); !line.empty()) {
      lines.push_back(std::move(line));
    }
  });
  EXPECT_EQ(code, 0) << program.Output();
  return lines;
}

// Addresses differ between processes.
std::vector<std::string> WithoutAddresses(std::vector<std::string> lines) {
  for (std::string& line : lines) {
    if (line.starts_with("allocate ")) {
      line = "allocate " + line.substr(line.rfind(' '));
    } else if (line.starts_with("free ")) {
      line = "free";
    }
  }
  return lines;
}

TEST(DeviceForward, a_program_is_recorded_as_on_the_virtual_device_and_arrives_below) {
  const ScratchFolder folder;
  const std::string log = folder / "fake_gpu.log";
  Variables environment = OnFakeGpu();
  environment.emplace_back("PRISM_FAKE_GPU_LOG", log);
  environment.emplace_back("RUN_LAYERS", "1");
  const std::vector<std::string> recorded = RecordedLines(PRISM_TORCH_PROGRAM, environment);
  Variables virtual_environment = OnVirtualDevice();
  virtual_environment.emplace_back("RUN_LAYERS", "1");
  const std::vector<std::string> on_virtual =
      RecordedLines(PRISM_TORCH_PROGRAM, virtual_environment);
  std::vector<std::string> arrived;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    arrived.push_back(line);
  }
  EXPECT_GT(recorded.size(), 60U);
  for (const char* const call : {"cudnnBatchNormalizationForwardTrainingEx", "cudnnRNNForward",
                                 "cufftXtExec", "cusolverDnXgeqrf"}) {
    EXPECT_THAT(recorded, Contains(HasSubstr(call)));
  }
  EXPECT_EQ(arrived, recorded);
  EXPECT_EQ(WithoutAddresses(recorded), WithoutAddresses(on_virtual));
}

struct Holds {
  int calls = 0;
  int began = 0;
  int ended = 0;
};

// Ends holds as a worker does, a millisecond after they have begun.
Holds RunHeld(Program* program) {
  Holds holds;
  const int code = program->Run([&](const Record& record, std::span<const std::byte>) {
    holds.calls += record.kind == RecordKind::kCollective && record.hold_stream != 0 ? 1 : 0;
    if (record.kind == RecordKind::kHold && record.hold.ended == 0) {
      ++holds.began;
      EXPECT_EQ(holds.began, holds.calls);
      program->consumer().SetDeadline(record.hold.hold_stream, record.hold.sequence,
                                      record.hold.time_ns + 1'000'000);
    }
    holds.ended += record.kind == RecordKind::kHold && record.hold.ended != 0 ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  return holds;
}

TEST(DeviceForward, a_collective_holds_its_stream_and_leaves_its_values) {
  Program program(PRISM_HELD_PROGRAM, Mode::kDevice, OnFakeGpu());
  const Holds holds = RunHeld(&program);
  EXPECT_EQ(holds.calls, 8);
  EXPECT_EQ(holds.began, 8);
  EXPECT_GE(holds.ended, 7);  // the process may exit before it reports the last
  EXPECT_EQ(program.Output(),
            "sum of 4: 3 3\nsum of 16384: 3 3\nsum of 524288: 3 3\n"
            "sum of 524288 integers: 6 6\n"
            "launched sum of 16384: 5 5\nlaunched sum of 16384: 8 8\n"
            "launched sum of 524288: 5 5\nlaunched sum of 524288: 8 8\n");
}

// The last calls below, the one in progress included, stand in a file of each process.
TEST(DeviceForward, an_abort_ends_a_program_that_is_held) {
  const ScratchFolder folder;
  Variables environment = OnFakeGpu();
  environment.emplace_back("PRISM_CALLS", folder / "calls");
  Program program(PRISM_HELD_PROGRAM, Mode::kDevice, environment);
  const int code = program.Run([&](const Record& record, std::span<const std::byte>) {
    if (record.kind == RecordKind::kHold) {
      program.consumer().Abort();
    }
  });
  EXPECT_EQ(code, -1);
  EXPECT_EQ(program.Output(), "");
  std::ifstream file(folder / "calls." + std::to_string(program.process()));
  std::vector<std::string> calls;
  for (std::string line; std::getline(file, line);) {
    calls.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  EXPECT_THAT(calls, Contains(::testing::MatchesRegex("[0-9]+ cudaMemcpy 0")));
  EXPECT_THAT(calls, Contains(::testing::MatchesRegex("[0-9]+ cudaStreamSynchronize -")));
}

// NVIDIA's own runtime on the driver's stub library, which refuses every call, and the program sees
// that. Without a driver library it could not call anything.
TEST(DeviceForward, calls_reach_the_real_runtime_and_its_calls_the_real_driver) {
  constexpr int kNoStream = 2;  // held_program.cc
  for (const auto& [driver, code] :
       {std::pair(PRISM_CUDA_STUBS "/libcuda.so", kNoStream), std::pair("/no/such/driver.so", 1)}) {
    Program program(PRISM_HELD_PROGRAM, Mode::kDevice,
                    {{"LD_PRELOAD", testing::PreloadOf(PRISM_LIBRARY_DIR, "prism-cuda")},
                     {"LD_LIBRARY_PATH", std::string(PRISM_LIBRARY_DIR) + "/prism-cuda"},
                     {"PRISM_DRIVER", driver}});
    program.Run([](const Record&, std::span<const std::byte>) {});
    EXPECT_EQ(program.exit_code(), code) << driver;
  }
}

// Where the echoes (echo_device.S) store their arguments.
struct Echo {
  const char* name;
  std::array<uint64_t, 6> registers;
  std::array<uint64_t, 8> stack;
};

std::vector<std::string> NamesThatPass() {
  std::vector<std::string> names;
  std::FILE* const listing = popen("nm -D --defined-only " PRISM_DEVICE_LIBRARY, "r");
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), listing) != nullptr) {
    std::istringstream words(line.data());
    std::string address;
    std::string kind;
    std::string name;
    words >> address >> kind >> name;
    // Strong ones see the call first (forward.h).
    if (kind == "W" && (name.starts_with("cu") || name.starts_with("__cuda"))) {
      names.push_back(name);
    }
  }
  pclose(listing);
  return names;
}

TEST(DeviceForward, every_other_call_arrives_with_its_arguments) {
  using Call = uint64_t(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  setenv("PRISM_TEST_DEVICE", PRISM_ECHO_DEVICE, 1);
  void* const device = dlopen(PRISM_DEVICE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(device, nullptr) << dlerror();
  void* const below = dlopen(PRISM_ECHO_DEVICE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(below, nullptr) << dlerror();
  const auto* const echo = static_cast<const Echo*>(dlsym(below, "prism_echo"));
  const std::vector<std::string> names = NamesThatPass();
  std::vector<std::string> wrong;
  for (const std::string& name : names) {
    auto* const call = reinterpret_cast<Call*>(dlsym(device, name.c_str()));
    for (const uint64_t first : {1U, 101U}) {  // the first call of a name has to find it
      const uint64_t a = first;
      const uint64_t result = call(a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8, a + 9,
                                   a + 10, a + 11, a + 12, a + 13);
      bool same = result == 42 && name == echo->name;
      for (uint64_t i = 0; i < 14; ++i) {
        same = same && (i < 6 ? echo->registers[i] : echo->stack[i - 6]) == a + i;
      }
      if (!same) {
        wrong.push_back(name);
      }
    }
  }
  EXPECT_GT(names.size(), 1500U);
  EXPECT_THAT(wrong, IsEmpty());
}

}  // namespace
}  // namespace prism::shim
