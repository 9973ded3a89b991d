// Launchers' command lines: what they ask for, and what each rank is given.
#include "launch/inputs/launchers.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/program_command.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

class Launchers : public testing::Test {
 protected:
  Launchers() {
    for (const char* name : {"torchrun", "accelerate", "deepspeed"}) {
      Write(name, "#!/opt/env/bin/python3.12\nimport sys\n");
    }
    setenv("HF_HOME", (folder_ / "").c_str(), 1);
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    FILE* const file = std::fopen(path.c_str(), "w");
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  // The first word is one of the scripts above where it names one.
  Words Command(Words words) const {
    if (std::filesystem::exists(folder_ / words[0])) {
      words[0] = folder_ / words[0];
    }
    return words;
  }

  Launch Read(const Words& words) const {
    const Result<Launch> launch = ReadLaunch(Command(words));
    EXPECT_TRUE(launch.ok()) << launch.status().message();
    return launch.ok() ? *launch : Launch();
  }

  std::string Refusal(const Words& words) const {
    const Result<Launch> launch = ReadLaunch(Command(words));
    return launch.ok() ? "" : std::string(launch.status().message());
  }

  std::map<std::string, std::string> Variables(const Words& words,
                                               LaunchPlace place = {11, 16, 8, 3}) const {
    const auto variables = RankVariables(Read(words), place);
    std::map<std::string, std::string> last;
    for (const auto& [name, value] : variables) {
      last[name] = value;
    }
    return last;
  }

  ScratchFolder folder_;
};

constexpr const char* kPython = "/opt/env/bin/python3.12";

TEST_F(Launchers, a_program_is_none) {
  for (const Words& words :
       {Words{"python", "train.py"}, Words{"env", "A=1", "python", "-m", "train", "torchrun"},
        Words{"./train", "mpirun"}, Words{"accelerate", "config"},
        Words{"python", "-c", "torchrun"}}) {
    const Launch launch = Read(words);
    EXPECT_THAT(launch.names, IsEmpty());
    EXPECT_EQ(launch.program, Command(words));
    EXPECT_EQ(RankVariables(launch, {11, 16, 8, 3}).size(), 21U);
  }
}

TEST_F(Launchers, torchrun_starts_python_with_a_script_a_module_or_nothing) {
  const Launch script = Read({"torchrun", "--nnodes", "128", "--nproc-per-node=8", "--rdzv-id", "7",
                              "--rdzv_endpoint=a:1", "train.py", "--nnodes", "2"});
  EXPECT_EQ(script.nodes, 128);
  EXPECT_EQ(script.ranks_per_node, 8);
  EXPECT_EQ(script.interpreter, kPython);
  EXPECT_THAT(script.program, ElementsAre(kPython, "-u", "train.py", "--nnodes", "2"));
  EXPECT_THAT(script.ignored, ElementsAre("torchrun --rdzv_endpoint=a:1"));
  EXPECT_THAT(Read({"torchrun", "-m", "package.train", "x"}).program,
              ElementsAre(kPython, "-u", "-m", "package.train", "x"));
  EXPECT_THAT(Read({"torchrun", "--no-python", "./train"}).program, ElementsAre("./train"));
  EXPECT_THAT(Read({"env", "A=1", "python3", "-um", "torch.distributed.run", "a.py"}).program,
              ElementsAre("env", "A=1", "python3", "-u", "a.py"));
  EXPECT_THAT(Read({"python", folder_ / "torchrun", "a.py"}).program,
              ElementsAre("python", "-u", "a.py"));
}

TEST_F(Launchers, torchrun_sets_what_its_agent_would) {
  const auto set = Variables({"torchrun", "--nnodes=2", "--nproc-per-node=8", "--role=a{b}",
                              "--max-restarts=3", "train.py"});
  EXPECT_EQ(set.at("RANK"), "11");
  EXPECT_EQ(set.at("LOCAL_RANK"), "3");
  EXPECT_EQ(set.at("GROUP_RANK"), "1");
  EXPECT_EQ(set.at("GROUP_WORLD_SIZE"), "2");
  EXPECT_EQ(set.at("ROLE_NAME"), "a{b}");
  EXPECT_EQ(set.at("TORCHELASTIC_MAX_RESTARTS"), "3");
  EXPECT_FALSE(set.contains("SLURM_PROCID"));
}

TEST_F(Launchers, torchrun_is_elastic_up_to_the_most_nodes) {
  const Launch launch = Read({"torchrun", "--nnodes", "1:4", "--nproc_per_node", "gpu", "a.py"});
  EXPECT_EQ(launch.nodes, 4);
  EXPECT_EQ(launch.ranks_per_node, std::nullopt);
  EXPECT_EQ(launch.notes.size(), 2U);
  setenv("PET_NNODES", "3", 1);
  EXPECT_EQ(Read({"torchrun", "a.py"}).nodes, 3);
  unsetenv("PET_NNODES");
  EXPECT_FALSE(Read({"torchrun", "a.py"}).asks_for_ranks);
}

TEST_F(Launchers, the_old_launcher_passes_the_local_rank) {
  const Launch launch =
      Read({"python", "-m", "torch.distributed.launch", "--nproc_per_node=8", "a.py", "--x"});
  EXPECT_THAT(RankProgram(launch, {11, 16, 8, 3}),
              ElementsAre("python", "-u", "a.py", "--local-rank=3", "--x"));
  EXPECT_EQ(Read({"python", "-m", "torch.distributed.launch", "--use_env", "a.py"}).local_rank_word,
            0U);
}

// Options in any order, with '=' or a space, with '-' or '_', mean the same.
TEST_F(Launchers, order_and_spelling_of_options_do_not_matter) {
  const std::vector<std::pair<std::string, std::string>> options = {
      {"nnodes", "16"},         {"nproc-per-node", "4"}, {"rdzv-endpoint", "host:29400"},
      {"rdzv-backend", "c10d"}, {"max-restarts", "2"},   {"node-rank", "5"},
      {"rdzv-id", "job"},       {"standalone", ""},      {"log-dir", "/tmp/x"}};
  std::mt19937 random(7);
  Launch first;
  for (int round = 0; round < 500; ++round) {
    auto drawn = options;
    std::ranges::shuffle(drawn, random);
    Words words = {"torchrun"};
    for (auto [name, value] : drawn) {
      if (random() % 2 == 0) {
        std::ranges::replace(name, '-', '_');
      }
      if (!value.empty() && random() % 2 == 0) {
        words.push_back("--" + name + "=" + value);
        continue;
      }
      words.push_back("--" + name);
      if (!value.empty()) {
        words.push_back(value);
      }
    }
    words.insert(words.end(), {"train.py", "--nnodes", "3"});
    Launch launch = Read(words);
    EXPECT_EQ(launch.ignored.size(), 5U);
    launch.ignored.clear();
    launch.command.clear();
    first = round == 0 ? launch : first;
    ASSERT_EQ(launch, first);
  }
}

TEST_F(Launchers, accelerate_by_options_and_by_its_file) {
  const auto set = Variables({"accelerate", "launch", "--num_processes=16", "--num_machines", "2",
                              "--mixed_precision", "bf16", "--use_fsdp", "--fsdp_sharding_strategy",
                              "HYBRID_SHARD", "train.py"});
  EXPECT_EQ(set.at("ACCELERATE_MIXED_PRECISION"), "bf16");
  EXPECT_EQ(set.at("ACCELERATE_USE_FSDP"), "true");
  EXPECT_EQ(set.at("FSDP_SHARDING_STRATEGY"), "HYBRID_SHARD");
  EXPECT_EQ(set.at("FSDP_USE_ORIG_PARAMS"), "true");
  EXPECT_EQ(set.at("ACCELERATE_DYNAMO_BACKEND"), "NO");
  EXPECT_EQ(set.at("RANK"), "11");
  const std::string config = Write("ds.yaml",
                                   "compute_environment: LOCAL_MACHINE\n"
                                   "deepspeed_config:\n"
                                   "  zero_stage: 3\n"
                                   "  zero3_init_flag: true   # said\n"
                                   "distributed_type: DEEPSPEED\n"
                                   "mixed_precision: 'no'\n"
                                   "num_machines: 2\nnum_processes: 16\n");
  const Launch launch = Read({"accelerate", "launch", "--config_file", config, "train.py"});
  EXPECT_EQ(launch.ranks, 16);
  EXPECT_EQ(launch.ranks_per_node, 8);
  const auto by_file =
      Variables({"accelerate", "launch", "--config_file", config, "--zero_stage", "2", "train.py"});
  EXPECT_EQ(by_file.at("ACCELERATE_DEEPSPEED_ZERO_STAGE"), "2");
  EXPECT_EQ(by_file.at("ACCELERATE_DEEPSPEED_ZERO3_INIT"), "true");
  EXPECT_EQ(by_file.at("ACCELERATE_CONFIG_DS_FIELDS"),
            "zero_stage,zero3_init_flag,mixed_precision");
  EXPECT_EQ(by_file.at("CROSS_RANK"), "1");
  EXPECT_THAT(Refusal({"accelerate", "launch", "--cpu", "train.py"}), HasSubstr("without GPUs"));
  Write("accelerate.d/x", "");
  EXPECT_FALSE(Variables({"accelerate", "launch", "--num_processes=1", "a.py"}).contains("RANK"));
}

TEST_F(Launchers, deepspeed_by_numbers_and_by_hosts) {
  const Launch numbers =
      Read({"deepspeed", "--num_nodes", "4", "--num_gpus=8", "train.py", "--deepspeed"});
  EXPECT_EQ(numbers.nodes, 4);
  EXPECT_EQ(numbers.ranks_per_node, 8);
  EXPECT_THAT(RankProgram(numbers, {11, 16, 8, 3}),
              ElementsAre(kPython, "-u", "train.py", "--local_rank=3", "--deepspeed"));
  const std::string hosts = Write("hosts", "# two\na slots=4\n\nb slots=4\nc slots=4\n");
  EXPECT_EQ(Read({"deepspeed", "-H", hosts, "train.py"}).nodes, 3);
  EXPECT_EQ(
      Read({"deepspeed", "--hostfile", hosts, "--include", "a:0,1@c:2,3", "t.py"}).ranks_per_node,
      2);
  EXPECT_THAT(Refusal({"deepspeed", "-H", hosts, "-i", "a@b:1", "t.py"}),
              HasSubstr("different numbers of ranks"));
  EXPECT_THAT(Refusal({"deepspeed", "-H", hosts, "-e", "d", "t.py"}), HasSubstr("not in the host"));
  EXPECT_THAT(Refusal({"deepspeed", "-H", folder_ / "none", "t.py"}), HasSubstr("none"));
  EXPECT_EQ(Variables({"deepspeed", "--no_local_rank", "t.py"}).at("CUDA_VISIBLE_DEVICES"),
            "0,1,2,3,4,5,6,7");
}

TEST_F(Launchers, srun_and_mpirun) {
  const Launch slurm = Read({"srun", "-N16", "--ntasks-per-node", "8", "-p", "gpu",
                             "--export=ALL,A=b", "python", "train.py"});
  EXPECT_EQ(slurm.nodes, 16);
  EXPECT_EQ(slurm.ranks_per_node, 8);
  EXPECT_THAT(slurm.program, ElementsAre("python", "train.py"));
  EXPECT_THAT(slurm.ignored, ElementsAre("srun -p gpu"));
  const auto set = Variables({"srun", "-n", "16", "-N", "2", "--export=ALL,A=b", "python", "t.py"});
  EXPECT_EQ(set.at("SLURM_PROCID"), "11");
  EXPECT_EQ(set.at("SLURM_TASKS_PER_NODE"), "8(x2)");
  EXPECT_EQ(set.at("SLURM_JOB_NODELIST"), "node[0-1]");
  EXPECT_EQ(set.at("A"), "b");
  EXPECT_FALSE(set.contains("RANK"));
  const Launch mpi = Read({"mpirun", "-np", "64", "--map-by", "ppr:4:node", "-x", "A=b", "--mca",
                           "btl", "^openib", "-x", "PATH", "python", "train.py"});
  EXPECT_EQ(mpi.ranks, 64);
  EXPECT_EQ(mpi.ranks_per_node, 4);
  EXPECT_THAT(mpi.ignored, ElementsAre("mpirun --mca btl ^openib"));
  EXPECT_EQ(Variables({"mpirun", "-n", "16", "-x", "A=b", "t"}).at("OMPI_COMM_WORLD_RANK"), "11");
  EXPECT_THAT(Refusal({"mpirun", "-n", "10", "-N", "4", "t"}), HasSubstr("do not fill nodes"));
  EXPECT_THAT(Refusal({"mpirun", "-n", "1", "a", ":", "-n", "1", "b"}), HasSubstr("several"));
}

TEST_F(Launchers, one_launcher_inside_another_is_started_once_a_node) {
  const Words words = {"srun",
                       "-N",
                       "2",
                       "--ntasks-per-node=1",
                       folder_ / "torchrun",
                       "--nnodes",
                       "2",
                       "--nproc-per-node=8",
                       "t.py"};
  const Launch launch = Read(words);
  EXPECT_THAT(launch.names, ElementsAre("srun", "torchrun"));
  EXPECT_EQ(launch.nodes, 2);
  EXPECT_EQ(launch.ranks_per_node, 8);
  const auto set = Variables(words);
  EXPECT_EQ(set.at("SLURM_PROCID"), "1");
  EXPECT_EQ(set.at("SLURM_NTASKS"), "2");
  EXPECT_EQ(set.at("RANK"), "11");
}

TEST_F(Launchers, wrong_input_says_what_and_how_to_go_on) {
  EXPECT_THAT(Refusal({"torchrun", "--nnodes", "2"}), HasSubstr("torchrun: no program"));
  EXPECT_THAT(Refusal({"torchrun", "--nnodes"}), HasSubstr("--nnodes needs a value"));
  EXPECT_THAT(Refusal({"torchrun", "--nnodes=0", "a.py"}), HasSubstr("--nnodes: '0' is not"));
  EXPECT_THAT(Refusal({"torchrun", "--nnodez", "2", "a.py"}), HasSubstr("did you mean --nnodes"));
  EXPECT_THAT(Refusal({"torchrun", "--standalone=1", "a.py"}), HasSubstr("--standalone is not"));
  EXPECT_THAT(Refusal({"deepspeed", "--frob", "a.py"}), HasSubstr("-- python train.py"));
  EXPECT_THAT(Refusal({"no-such-folder/torchrun", "a.py"}), HasSubstr("not found"));
}

TEST_F(Launchers, a_script_may_start_one) {
  const std::string script = Write("a.sh", "#!/bin/bash\nA=1\ntorchrun ${A[@]} train.py\n");
  const std::string other = Write("b.sh", "#!/bin/sh\npython t.py --deepspeed ds.json\n");
  for (const Words& words :
       {Words{script}, Words{"bash", "-x", script}, Words{"env", "A=1", "sh", script},
        Words{"bash", "-c", "cd x && /opt/torchrun train.py"},
        Words{"bash", "-c", "exec python -m torch.distributed.run t.py"},
        Words{"uv", "run", "torchrun", "t.py"}, Words{"timeout", "9", "bash", script},
        Words{"conda", "run", "-n", "x", "accelerate", "launch", "t.py"}}) {
    EXPECT_TRUE(MayStartLauncher(words)) << words.back();
  }
  for (const Words& words :
       {Words{other}, Words{"bash", other}, Words{"python", "t.py", "torchrun"},
        Words{"uv", "run", "python", "t.py", "torchrun"}, Words{"/bin/true", "mpirun"}}) {
    EXPECT_FALSE(MayStartLauncher(words)) << words.back();
  }
}

}  // namespace
}  // namespace prism::launch
