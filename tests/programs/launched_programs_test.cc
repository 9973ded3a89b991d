// A program started by a launcher's command, or by a script that ends in one, gives what it gives
// when each of its ranks is started by itself.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/programs/user_program.h"

namespace prism {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

class LaunchedProgram : public UserProgram {
 protected:
  // On 64 GPUs as far as the launcher says so.
  Finished Run(const std::string& name, const Words& options, const Words& launcher) {
    Words command = {PRISM_PROGRAM,     "run",  "--iterations", "2",
                     "--sandbox-ranks", "none", "--out",        folder_ / name};
    command.insert(command.end(), options.begin(), options.end());
    command.emplace_back("--");
    command.insert(command.end(), launcher.begin(), launcher.end());
    return RunCommand(command);
  }

  void ExpectLikePlain(const std::string& name, const Words& launcher) {
    if (!Exists(folder_ / "plain")) {
      Words command = {PRISM_PYTHON};
      command.insert(command.end(), script_.begin(), script_.end());
      const Finished plain = Run("plain", {"--gpus", "64"}, command);
      ASSERT_EQ(plain.code, 0) << plain.output;
    }
    const Finished run = Run(name, {}, launcher);
    ASSERT_EQ(run.code, 0) << run.output;
    for (const char* file : {"/ranks.csv", "/communicators.csv"}) {
      EXPECT_EQ(ReadText(folder_ / (name + file)),
                ReadText(folder_ / (std::string("plain") + file)))
          << name;
    }
    const Finished difference =
        RunCommand({PRISM_PROGRAM, "diff", folder_ / "plain", folder_ / name});
    EXPECT_EQ(difference.output, "equal\n") << name;
    EXPECT_THAT(ReadText(folder_ / (name + "/run.json")), HasSubstr("\"launcher\""));
  }

  // A launcher beside the interpreter; "" if it is not installed.
  static std::string Installed(const std::string& name) {
    const std::string path = std::filesystem::path(PRISM_PYTHON).parent_path() / name;
    return Exists(path) ? path : "";
  }

  [[nodiscard]] Words WithScript(Words words) const {
    words.insert(words.end(), script_.begin(), script_.end());
    return words;
  }

  [[nodiscard]] std::string ScriptLine() const {
    std::string line;
    for (const std::string& word : script_) {
      line += " " + word;
    }
    return line;
  }

  Words script_ = {PRISM_PROGRAM_DIR "/../../experiments/02_ddp/train.py",
                   "--layers",
                   "2",
                   "--hidden",
                   "256",
                   "--heads",
                   "4",
                   "--vocab",
                   "1024",
                   "--seq-len",
                   "64"};
};

TEST_F(LaunchedProgram, by_python_launchers) {
  ExpectLikePlain("torchrun", WithScript({Installed("torchrun"), "--nnodes", "8",
                                          "--nproc-per-node", "8", "--max-restarts=3"}));
  if (const std::string accelerate = Installed("accelerate"); !accelerate.empty()) {
    ExpectLikePlain("accelerate", WithScript({accelerate, "launch", "--num_processes", "64",
                                              "--num_machines", "8", "--mixed_precision", "no"}));
  }
  if (const std::string deepspeed = Installed("deepspeed"); !deepspeed.empty()) {
    ExpectLikePlain("deepspeed", WithScript({deepspeed, "--num_nodes", "8", "--num_gpus", "8",
                                             "--no_local_rank"}));
  }
}

// They name ranks in variables of their own.
TEST_F(LaunchedProgram, by_srun_and_mpirun_which_need_not_be_installed) {
  const std::string path = folder_ / "train.py";
  WriteText(path, R"(
import os, runpy, sys
names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
if "OMPI_COMM_WORLD_RANK" in os.environ:
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
assert "RANK" not in os.environ
for name, own in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), names):
    os.environ[name] = os.environ[own]
os.environ["MASTER_PORT"] = "1"
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
)");
  ExpectLikePlain("srun", WithScript({"srun", "-N8", "--ntasks-per-node=8",
                                      "--export=ALL,MASTER_ADDR=node0", PRISM_PYTHON, path}));
  ExpectLikePlain(
      "mpirun", WithScript({"mpirun", "-np", "64", "-x", "MASTER_ADDR=node0", PRISM_PYTHON, path}));
}

// As Megatron-LM's examples are.
TEST_F(LaunchedProgram, by_a_script_that_ends_in_torchrun) {
  const std::string path = folder_ / "pretrain.sh";
  WriteText(path,
            "#!/bin/bash\n"
            "export PATH=" +
                std::string(std::filesystem::path(PRISM_PYTHON).parent_path()) +
                ":$PATH\n"
                "GPUS_PER_NODE=8\nNUM_NODES=${NUM_NODES:-8}\n"
                "DISTRIBUTED_ARGS=(\n  --nproc_per_node $GPUS_PER_NODE\n  --nnodes $NUM_NODES\n"
                "  --master_addr localhost\n  --master_port 6000\n)\n"
                "test -z \"$RANK\" || exit 7\n"
                "torchrun ${DISTRIBUTED_ARGS[@]}" +
                ScriptLine() + "\n");
  ExpectLikePlain("script", {"bash", path});
  EXPECT_THAT(ReadText(folder_ / "script/summary.json"), HasSubstr("\"train\""));
}

TEST_F(LaunchedProgram, a_script_fails_or_starts_no_launcher) {
  const auto dry = [&](const std::string& text) {
    return Run("dry", {"--dry-run"}, {"bash", "-c", text});
  };
  const Finished failed = dry("echo no such data; exit 3; torchrun train.py");
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.output, HasSubstr("before it reached a launcher"));
  EXPECT_THAT(failed.output, HasSubstr("no such data"));
  const Finished none = dry("exit 0; torchrun train.py");
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.output, HasSubstr("starts no launcher"));
  const Finished wrong = dry("exec mpirun --frob 3 train.py");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("--frob"));
  const Finished nested = dry("env A=1 timeout 60 srun -N 2 --ntasks-per-node 4 python train.py");
  EXPECT_EQ(nested.code, 0) << nested.output;
  EXPECT_THAT(nested.output, HasSubstr("train on 8"));
}

}  // namespace
}  // namespace prism
