#include "launch/emulate/sandbox/sandbox_process.h"

#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/emulate/run/run_context.h"
#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::Pair;

constexpr size_t kKeptBytes = size_t{16} << 20U;

struct Ended {
  std::string log;
  std::vector<std::string> lines;  // as they were passed on
};

Ended RunShell(const std::string& script, SandboxSpec spec = {}) {
  Ended ended;
  spec.command = {"/bin/bash", "-c", script};
  spec.on_line = [&](const std::string& line) { ended.lines.push_back(line); };
  auto process = SandboxProcess::Start(spec);
  EXPECT_TRUE(process.ok()) << process.status().message();
  while (process.ok() && !(*process)->Exited()) {
    (*process)->PumpOutput();
    usleep(1000);
  }
  ended.log = process.ok() ? (*process)->log() : std::string();
  return ended;
}

TEST(SandboxProcess, says_where_it_cuts_the_output) {
  const std::string whole = RunShell("head -c 16777216 /dev/zero").log;
  EXPECT_EQ(whole.size(), kKeptBytes);
  const std::string cut = RunShell("head -c 17000000 /dev/zero").log;
  EXPECT_GT(cut.size(), kKeptBytes);
  EXPECT_THAT(cut, EndsWith("\n(the output was longer; prism keeps the first 16 MiB)\n"));
}

// The environment is at fault, not the program.
TEST(SandboxProcess, a_shim_of_another_build_is_told_as_one) {
  SandboxSpec spec;
  spec.command = {"/bin/bash", "-c",
                  std::string("echo prism shim: ") + channel::kOtherVersion + " >&2; exit 1"};
  auto process = SandboxProcess::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status().message();
  while (!(*process)->Exited()) {
    usleep(1000);
  }
  const Status status = (*process)->ExitStatus();
  EXPECT_EQ(status.code(), StatusCode::kEnvironment);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("run ./run.sh"));
}

TEST(SandboxProcess, what_programs_are_given_is_told_unless_the_user_gives_it) {
  setenv("PYTHONHASHSEED", "7", 1);
  const std::vector<std::string> lines = AssumedEnvironment();
  unsetenv("PYTHONHASHSEED");
  EXPECT_THAT(lines, ElementsAre(testing::HasSubstr("TORCH_NCCL_HIGH_PRIORITY=1")));
  EXPECT_EQ(AssumedEnvironment().size(), 2U);
}

TEST(SandboxProcess, passes_a_last_line_on_that_has_no_end) {
  EXPECT_THAT(RunShell("echo one; printf two").lines, ElementsAre("one", "two"));
}

TEST(SandboxProcess, keeps_what_the_user_preloads) {
  RunContext context;
  Result<graph::ClusterSpec> cluster = LoadCluster("h100-8x");
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  context.cluster = *std::move(cluster);
  context.paths.virtual_device.preload = "ours.so";
  SandboxRequest request;
  request.rank = Rank(0);
  request.present = {Rank(0)};
  setenv("LD_PRELOAD", "malloc.so", 1);
  const SandboxSpec spec = MakeSandboxSpec(context, request);
  unsetenv("LD_PRELOAD");
  EXPECT_THAT(spec.environment, Contains(Pair("LD_PRELOAD", "ours.so:malloc.so")));
}

#ifdef PRISM_SHIM_LIBRARY
// As helpers that daemonise a program do.
TEST(SandboxProcess, programs_of_one_that_has_closed_its_descriptors_run) {
  SandboxSpec spec;
  spec.config.version = channel::kProtocolVersion;
  spec.config.mode = channel::Mode::kRecord;
  spec.environment.emplace_back("LD_PRELOAD", PRISM_SHIM_LIBRARY);
  EXPECT_EQ(
      RunShell("for ((n = 3; n < 256; ++n)); do eval \"exec $n>&-\"; done; /bin/true; echo $?",
               std::move(spec))
          .log,
      "0\n");
}
#endif

}  // namespace
}  // namespace prism::launch
