#include "launch/sandbox/sandbox_process.h"

#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr size_t kKeptBytes = size_t{16} << 20U;

struct Ended {
  std::string log;
  std::vector<std::string> lines;  // as they were passed on
};

Ended RunShell(const std::string& script) {
  Ended ended;
  SandboxSpec spec;
  spec.command = {"/bin/sh", "-c", script};
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

TEST(SandboxProcess, Says_where_it_cuts_the_output) {
  const std::string whole = RunShell("head -c 16777216 /dev/zero").log;
  EXPECT_EQ(whole.size(), kKeptBytes);
  const std::string cut = RunShell("head -c 17000000 /dev/zero").log;
  EXPECT_GT(cut.size(), kKeptBytes);
  EXPECT_THAT(cut, EndsWith("\n(prism keeps the first 16 MiB; the output went on)\n"));
}

TEST(SandboxProcess, Passes_a_last_line_on_that_has_no_end) {
  EXPECT_THAT(RunShell("echo one; printf two").lines, ElementsAre("one", "two"));
}

// The channel outlives the descriptors of a program that closes them.
TEST(SandboxProcess, Tells_where_its_channel_is) {
  const std::string size = std::to_string(channel::ChannelBytes());
  EXPECT_THAT(RunShell("stat -L -c %s $PRISM_CHANNEL_PATH").log, HasSubstr(size));
}

}  // namespace
}  // namespace prism::launch
