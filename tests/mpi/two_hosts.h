// Two hosts that share nothing but a file system, made of namespaces (two_hosts.sh), for one test.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {

using Words = std::vector<std::string>;

class TwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    const Finished up = Tool({"up"});
    if (up.code != 0) {
      Tool({"down"});
      GTEST_SKIP() << "no namespaces here, which take root and iproute2: " << up.output;
    }
    made_ = true;
  }
  void TearDown() override {
    if (made_) {
      EXPECT_EQ(Tool({"down"}).code, 0);
    }
  }

  [[nodiscard]] Words ToolWords(const Words& words) const {
    Words command = {PRISM_SOURCE_DIR "/tests/mpi/two_hosts.sh", name_};
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }
  Finished Tool(const Words& words) const { return RunCommand(ToolWords(words)); }

  void ExpectSameFiles(const std::string& a, const std::string& b) const {
    for (const char* file : {"/summary.json", "/ranks.csv", "/communicators.csv", "/graph.prism"}) {
      const std::string expected = ReadText(folder_ / (a + file));
      EXPECT_FALSE(expected.empty()) << file;
      EXPECT_TRUE(ReadText(folder_ / (b + file)) == expected) << file;
    }
  }

  ScratchFolder folder_;
  std::string name_ = "prism-" + std::to_string(getpid());
  bool made_ = false;
};

}  // namespace prism
