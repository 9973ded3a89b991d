// Runs over two hosts that share nothing but a file system, made of namespaces (two_hosts.sh): the
// same bytes as on one, with ranks that exchange values on different ones; a host that goes away.
#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using Words = std::vector<std::string>;
using testing::HasSubstr;

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

  [[nodiscard]] Words Job(const std::string& out, const Words& job) const {
    Words command = {PRISM_EMULATE, "--out", folder_ / out, "--iterations", "2"};
    command.insert(command.end(), job.begin(), job.end());
    return command;
  }

  // On one host and on two.
  void ExpectSameBytes(const Words& job, const std::string& places) {
    const Finished one = RunCommand(Job("one", job));
    ASSERT_EQ(one.code, 0) << one.output;
    Words words = {"mpirun", "2"};
    for (const std::string& word : Job("two", job)) {
      words.push_back(word);
    }
    const Finished two = Tool(words);
    ASSERT_EQ(two.code, 0) << two.output;
    EXPECT_THAT(two.output, HasSubstr("sandbox ranks: " + places));
    for (const char* file : {"/summary.json", "/ranks.csv", "/communicators.csv", "/graph.prism"}) {
      const std::string expected = ReadText(folder_ / ("one" + std::string(file)));
      EXPECT_FALSE(expected.empty()) << file;
      EXPECT_TRUE(ReadText(folder_ / ("two" + std::string(file))) == expected) << file;
    }
    EXPECT_TRUE(Descendants().empty());
  }

  ScratchFolder folder_;
  std::string name_ = "prism-" + std::to_string(getpid());
  bool made_ = false;
};

TEST_F(TwoHosts, run_the_built_in_job) {
  ExpectSameBytes({"--target-gpus", "16", "--pp", "4", "--tp", "2", "--global-batch-size", "8",
                   "--model", "gpt3-1.3b", "--seq-len", "256"},
                  "rank");
}

TEST_F(TwoHosts, run_ranks_of_ddp_apart) {
  ExpectSameBytes(
      {"--config", PRISM_SOURCE_DIR "/experiments/02_ddp/small.toml", "--sandbox-ranks", "0,1"},
      "rank 0 on h1; rank 1 on h2");
}

TEST_F(TwoHosts, run_ranks_of_a_shard_group_apart) {
  ExpectSameBytes(
      {"--config", PRISM_SOURCE_DIR "/experiments/04_fsdp2/small.toml", "--sandbox-ranks", "0,2"},
      "rank 0 on h1; rank 2 on h2");
}

TEST_F(TwoHosts, run_stages_of_a_pipeline_apart) {
  ExpectSameBytes({"--target-gpus", "4", "--sandbox-ranks", "1,2", "--", PRISM_PYTHON,
                   PRISM_SOURCE_DIR "/tests/programs/uneven_pipeline.py"},
                  "rank 1 on h1; rank 2 on h2");
}

TEST_F(TwoHosts, run_cpu_process_groups_apart) {
  ExpectSameBytes({"--target-gpus", "4", "--sandbox-ranks", "0,1", "--", PRISM_PYTHON,
                   PRISM_SOURCE_DIR "/tests/mpi/cpu_groups.py"},
                  "rank 0 on h1; rank 1 on h2");
}

}  // namespace
}  // namespace prism
