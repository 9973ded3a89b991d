// Runs over two hosts that share nothing but a file system, made of namespaces (two_hosts.sh): the
// same bytes as on one, with ranks that exchange values on different ones; a host that goes away.
#include "tests/mpi/two_hosts.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "tests/support/job_run.h"

namespace prism {
namespace {

using testing::HasSubstr;

class Runs : public TwoHosts {
 protected:
  [[nodiscard]] Words Job(const std::string& out, const Words& job) const {
    Words command = {PRISM_EMULATE, "--out", folder_ / out, "--iterations", iterations_};
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
    ExpectSameFiles("one", "two");
    EXPECT_TRUE(Descendants().empty());
  }

  std::string iterations_ = "2";
};

TEST_F(Runs, run_the_built_in_job) {
  ExpectSameBytes({"--target-gpus", "16", "--pp", "4", "--tp", "2", "--global-batch-size", "8",
                   "--model", "gpt3-1.3b", "--seq-len", "256"},
                  "rank");
}

TEST_F(Runs, run_ranks_of_ddp_apart) {
  ExpectSameBytes({"--config", PRISM_SOURCE_DIR "/experiments/02_ddp/small.toml", "--sandbox-ranks",
                   "0,1", "--memory-snapshot", "all"},
                  "rank 0 on h1; rank 1 on h2");
  for (const char* snapshot : {"/memory/rank0.pickle", "/memory/rank1.pickle"}) {
    const auto report = [&](const std::string& out) {
      const Finished mem = RunCommand({PRISM, "mem", folder_ / (out + snapshot)});
      EXPECT_EQ(mem.code, 0) << mem.output;
      return mem.output.substr(mem.output.find(','));  // behind the file's name
    };
    EXPECT_EQ(report("two"), report("one")) << snapshot;
  }
}

TEST_F(Runs, run_ranks_of_a_shard_group_apart) {
  ExpectSameBytes(
      {"--config", PRISM_SOURCE_DIR "/experiments/04_fsdp2/small.toml", "--sandbox-ranks", "0,2"},
      "rank 0 on h1; rank 2 on h2");
}

TEST_F(Runs, run_stages_of_a_pipeline_apart) {
  ExpectSameBytes({"--target-gpus", "4", "--sandbox-ranks", "1,2", "--", PRISM_PYTHON,
                   PRISM_SOURCE_DIR "/tests/programs/uneven_pipeline.py"},
                  "rank 1 on h1; rank 2 on h2");
}

TEST_F(Runs, run_cpu_process_groups_apart) {
  ExpectSameBytes({"--target-gpus", "4", "--sandbox-ranks", "0,1", "--", PRISM_PYTHON,
                   PRISM_SOURCE_DIR "/tests/mpi/cpu_groups.py"},
                  "rank 0 on h1; rank 1 on h2");
}

// What is typed reaches process 0, wherever mpirun was started, and by it the rank.
TEST_F(Runs, give_their_input_to_a_debugger_of_the_rank) {
  const auto typed = [](const Words& command) {
    Words words = {"bash", "-c", R"(printf 'p 1000 + step\nc\n' | "$@")", "_"};
    words.insert(words.end(), command.begin(), command.end());
    return RunCommand(words);
  };
  const Words job = {"--target-gpus",
                     "4",
                     "--interactive",
                     "--sandbox-ranks",
                     "2",
                     "--",
                     PRISM_PYTHON,
                     PRISM_SOURCE_DIR "/tests/mpi/breakpoint.py"};
  const Finished one = typed(Job("one", job));
  ASSERT_EQ(one.code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("1001"));
  Words words = {"mpirun", "2"};
  for (const std::string& word : Job("two", job)) {
    words.push_back(word);
  }
  const Finished two = typed(ToolWords(words));
  ASSERT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, testing::AllOf(HasSubstr("1001"), HasSubstr("rank 2 on h1")));
  ExpectSameFiles("one", "two");
}

// Simulated ones (tests/support/fake_gpu.cc), of which h2 has more than h1.
TEST_F(Runs, take_the_gpus_that_each_host_has) {
  const auto run = [&](const std::string& of_h1, const std::string& of_h2) {
    Words words = {"mpirun",
                   "2",
                   "bash",
                   "-c",
                   "export PRISM_TEST_DEVICE=" PRISM_FAKE_GPU " FAKE_GPU_COUNT=" + of_h2 +
                       "; [ $HOSTNAME = h2 ] || FAKE_GPU_COUNT=" + of_h1 + R"(; exec "$@")",
                   "_"};
    for (const std::string& word :
         Job("out", {"--force", "--device", "cuda", "--target-gpus", "8", "--sandbox-ranks", "0-2",
                     "--", PRISM_PYTHON, PRISM_SOURCE_DIR "/tests/programs/objects.py"})) {
      words.push_back(word);
    }
    return Tool(words);
  };
  const Finished enough = run("1", "2");
  ASSERT_EQ(enough.code, 0) << enough.output;
  EXPECT_THAT(enough.output, HasSubstr("rank 0 on h1 (1 GPU); ranks 1, 2 on h2 (2 GPUs)"));
  EXPECT_THAT(ReadText(folder_ / "out/summary.json"), testing::Not(HasSubstr("gpu_shared")));
  const Finished shared = run("2", "0");
  ASSERT_EQ(shared.code, 0) << shared.output;
  EXPECT_THAT(shared.output, HasSubstr("ranks 0-2 on h1 (2 GPUs)"));
  EXPECT_THAT(ReadText(folder_ / "out/summary.json"), HasSubstr("ranks on 2 GPUs"));
  const Finished none = run("0", "2");
  EXPECT_EQ(none.code, 5) << none.output;
  EXPECT_THAT(none.output, HasSubstr("shows no GPU"));
}

// Long enough that it does not end before the host goes away.
class LostHost : public Runs {
 protected:
  void RunUntilEmulating() {
    iterations_ = "1000";
    Words words = {"mpirun", "2"};
    for (const std::string& word :
         Job("out", {"--target-gpus", "16", "--pp", "4", "--tp", "2", "--global-batch-size", "64",
                     "--model", "gpt3-1.3b", "--seq-len", "256", "--host-timeout", "8",
                     "--sandbox-ranks", "0,1", "--log-ranks", "all"})) {
      words.push_back(word);
    }
    running_ = std::make_unique<RunningCommand>(ToolWords(words), folder_ / "log");
    ASSERT_TRUE(running_->WaitForOutput("sandbox ranks: ", 200)) << running_->Output();
  }

  void ExpectEnd(const std::string& reason) {
    const Finished end = running_->Wait(30);
    EXPECT_EQ(end.code, 1) << end.output;
    EXPECT_THAT(end.output, HasSubstr(reason));
    EXPECT_THAT(ReadText(folder_ / "out/FAILED"), HasSubstr(reason));
    ExpectNothingLeft();
  }

  // On the other host neither; killed processes take a moment to disappear.
  static void ExpectNothingLeft() {
    for (int look = 0; look < 200 && !Descendants().empty(); ++look) {
      usleep(50'000);
    }
    EXPECT_TRUE(Descendants().empty());
  }

  std::unique_ptr<RunningCommand> running_;
};

TEST_F(LostHost, a_cut_network_ends_the_run_on_both_sides) {
  ASSERT_NO_FATAL_FAILURE(RunUntilEmulating());
  ASSERT_EQ(Tool({"cut"}).code, 0);
  ExpectEnd("host h2 (10.77.0.2) has not answered for 8 s");
}

// It cannot answer for longer than a host may be silent, but its host does.
TEST_F(LostHost, a_process_that_is_only_stopped_is_waited_for) {
  ASSERT_NO_FATAL_FAILURE(RunUntilEmulating());
  ASSERT_EQ(Tool({"kill", "prism-emulate", "STOP"}).code, 0);
  sleep(12);
  ASSERT_EQ(Tool({"kill", "prism-emulate", "CONT"}).code, 0);
  EXPECT_EQ(running_->Wait(5).code, -1) << running_->Output();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/FAILED"));
  ASSERT_EQ(kill(running_->pid(), SIGTERM), 0);
  EXPECT_NE(running_->Wait(30).code, -1) << running_->Output();
  ExpectNothingLeft();
}

TEST_F(LostHost, stacks_are_shown_of_ranks_on_all_hosts) {
  ASSERT_NO_FATAL_FAILURE(RunUntilEmulating());
  int asked = 0;
  const auto shows = [&](const char* rank) {
    return running_->WaitForOutput(std::string("rank ") + rank, 1);
  };
  do {
    ASSERT_EQ(kill(running_->pid(), SIGUSR1), 0);
  } while (++asked < 20 && !(shows("0 has issued") && shows("1 has issued")));
  EXPECT_LT(asked, 20) << running_->Output();
  ASSERT_EQ(kill(running_->pid(), SIGTERM), 0);
  EXPECT_NE(running_->Wait(30).code, -1) << running_->Output();
  ExpectNothingLeft();
}

// Open MPI, which sees it too, may be the first and decide the code: 137 for a process, 205 for its
// daemon of the host (143 where its own signal comes first). Then it names the host.
TEST_F(LostHost, a_host_killed_at_any_point_ends_the_run_and_leaves_nothing) {
  constexpr int kPoints = 10;
  constexpr int64_t kLongestUs = 4'000'000;
  Rng rng(42, "lost host");
  for (int point = 0; point < kPoints; ++point) {
    const char* const killed = rng.UniformInt(0, 1) == 0 ? "orted" : "prism-emulate";
    SCOPED_TRACE(testing::Message() << "point " << point << ": " << killed);
    std::filesystem::remove_all(folder_ / "out");
    ASSERT_NO_FATAL_FAILURE(RunUntilEmulating());
    usleep(static_cast<useconds_t>(rng.UniformInt(0, kLongestUs)));
    ASSERT_EQ(Tool({"kill", killed}).code, 0);
    const Finished end = running_->Wait(30);
    EXPECT_THAT(end.code, testing::AnyOf(1, 137, 143, 205)) << end.output;
    EXPECT_THAT(end.output,
                testing::AnyOf(HasSubstr("on node 10.77.0.2"), HasSubstr("host h2 (10.77.0.2)")));
    ExpectNothingLeft();
    EXPECT_FALSE(HasPartialOutput(folder_ / "out"));
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      EXPECT_EQ(entry.path().string().find(".h1."), std::string::npos) << entry.path();
    }
  }
}

TEST_F(TwoHosts, prism_bench_exchange_measures_between_them) {
  const Finished run = Tool({"mpirun", "2", PRISM, "bench", "exchange", "--format", "json"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, testing::AllOf(HasSubstr("\"case\": \"within a host, h1\""),
                                         HasSubstr("\"case\": \"between h1 and h2\"")));
}

}  // namespace
}  // namespace prism
