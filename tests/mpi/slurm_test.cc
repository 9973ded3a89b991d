// Slurm from Debian's packages with two hosts made of namespaces: its recipe, what its tasks and
// allocations are, and the signal before the time limit. Its Open MPI goes by the library of PMIx.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/executable.h"
#include "tests/mpi/two_hosts.h"
#include "tests/support/job_run.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Slurm : public TwoHosts {
 protected:
  void SetUp() override {
    for (const char* program : {"slurmctld", "slurmd", "srun", "sbatch"}) {
      if (FindExecutable(program).empty()) {
        GTEST_SKIP() << "no " << program
                     << "; Debian has it in slurmctld, slurmd, slurm-client and libpmix-dev";
      }
    }
    TwoHosts::SetUp();
    if (!made_) {
      return;
    }
    const Finished daemons = Tool({"slurm", folder_ / "slurm"});
    ASSERT_EQ(daemons.code, 0) << daemons.output;
    setenv("SLURM_CONF", (folder_ / "slurm/slurm.conf").c_str(), 1);
    const Finished kinds = OnHost({"srun", "--mpi=list"});
    if (kinds.output.find("pmix") == std::string::npos) {
      GTEST_SKIP() << "srun has no --mpi=pmix, which takes libpmix-dev: " << kinds.output;
    }
  }

  [[nodiscard]] Finished OnHost(const Words& words) const {
    Words command = {"on", "h1"};
    command.insert(command.end(), words.begin(), words.end());
    return Tool(command);
  }

  // Options of prism run.
  [[nodiscard]] Words Job(const std::string& out) const {
    return {"--target-gpus",       "16", "--pp",         "4",         "--tp",       "2",
            "--global-batch-size", "8",  "--model",      "gpt3-1.3b", "--seq-len",  "256",
            "--iterations",        "2",  "--cold-start", "--out",     folder_ / out};
  }

  [[nodiscard]] Finished Run(Words launcher, const std::string& out) const {
    launcher.emplace_back(PRISM_EMULATE);
    const Words job = Job(out);
    launcher.insert(launcher.end(), job.begin(), job.end());
    return OnHost(launcher);
  }

  [[nodiscard]] Words Recipe(const std::string& out) const {
    Words command = {"sbatch", "--ntasks-per-node=1", "--time=10",
                     "--output=" + folder_ / "batch.log",
                     PRISM_SOURCE_DIR "/experiments/slurm/run.sbatch"};
    const Words job = Job(out);
    command.insert(command.end(), job.begin(), job.end());
    return command;
  }

  [[nodiscard]] bool WaitFor(const std::string& file, int seconds) const {
    for (int look = 0; look < 20 * seconds && !Exists(folder_ / file); ++look) {
      usleep(50'000);
    }
    return Exists(folder_ / file);
  }

  [[nodiscard]] std::string ProcessesOf(const std::string& out) const {
    const std::string text = ReadText(folder_ / (out + "/run.json"));
    const size_t at = text.find("\"processes\":");
    return at == text.npos ? "" : text.substr(at, text.find_first_of(",\n", at) - at);
  }
};

TEST_F(Slurm, tasks_of_srun_are_the_processes_of_a_run) {
  const Finished one = Run({"salloc", "--nodes=2", "--ntasks=4"}, "one");  // without srun
  ASSERT_EQ(one.code, 0) << one.output;
  EXPECT_EQ(ProcessesOf("one"), "\"processes\": 1");
  const Finished two = Run({"srun", "--mpi=pmix", "--nodes=2", "--ntasks=2"}, "two");
  ASSERT_EQ(two.code, 0) << two.output;
  EXPECT_EQ(ProcessesOf("two"), "\"processes\": 2");
  EXPECT_THAT(two.output, AllOf(HasSubstr(" on h1; "), HasSubstr(" on h2")));
  ExpectSameFiles("one", "two");

  const Finished apart = Run({"srun", "--mpi=none", "--nodes=2", "--ntasks=2"}, "apart");
  EXPECT_EQ(apart.code, 5) << apart.output;
  EXPECT_THAT(apart.output, HasSubstr("use srun --mpi=pmix"));
  EXPECT_FALSE(Exists(folder_ / "apart"));
}

TEST_F(Slurm, the_recipe_goes_on_after_sigterm) {
  ASSERT_EQ(Run({}, "one").code, 0);
  ASSERT_EQ(OnHost(Recipe("out")).code, 0);
  const auto has_kept = [&] {
    return Exists(folder_ / "out.recorded") &&
           std::ranges::any_of(Entries(folder_ / "out.recorded"),
                               [](const std::string& name) { return name.starts_with("rank"); });
  };
  for (int look = 0; look < 2000 && !has_kept(); ++look) {
    usleep(50'000);
  }
  ASSERT_TRUE(has_kept()) << ReadText(folder_ / "batch.log");
  // As Slurm does before the time limit, which it counts in minutes.
  ASSERT_EQ(OnHost({"scancel", "--signal=TERM", "--name=prism"}).code, 0);
  ASSERT_TRUE(WaitFor("out/FAILED", 30)) << ReadText(folder_ / "batch.log");
  EXPECT_THAT(ReadText(folder_ / "out/FAILED"), HasSubstr("Slurm ended the run"));
  ASSERT_TRUE(WaitFor("out/run.json", 200)) << ReadText(folder_ / "batch.log");
  EXPECT_THAT(ReadText(folder_ / "batch.log"), HasSubstr("going on from "));
  ExpectSameFiles("one", "out");
  for (int look = 0; look < 200 && Exists(folder_ / "out.recorded"); ++look) {
    usleep(50'000);  // they go once the result is there
  }
  EXPECT_FALSE(Exists(folder_ / "out.recorded"));
}

}  // namespace
}  // namespace prism
