#include "launch/inputs/job_resolution.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/program_command.h"

namespace prism::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<ResolvedJob> Resolve(const std::vector<std::string>& arguments) {
  PRISM_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(arguments));
  PRISM_ASSIGN_OR_RETURN(const ModelPreset model, LoadModel(line.options.model));
  PRISM_ASSIGN_OR_RETURN(const graph::ClusterSpec cluster, LoadCluster(line.options.cluster));
  return ResolveJob(line.options, model, cluster);
}

std::string Refusal(const std::vector<std::string>& arguments) {
  const Result<ResolvedJob> job = Resolve(arguments);
  if (job.ok()) {
    return "accepted";
  }
  EXPECT_EQ(job.status().code(), StatusCode::kInvalidArgument);
  return job.status().message();
}

TEST(JobResolution, default_job_is_that_of_the_contract) {
  const Result<ResolvedJob> resolved = Resolve({});
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  const graph::JobSpec& job = resolved->job;
  EXPECT_EQ(job.name, "gpt3-175b");
  const graph::ParallelSizes sizes = {.tp = 8, .cp = 1, .dp = 64, .pp = 16, .ep = 1, .vpp = 1};
  EXPECT_EQ(job.parallel, sizes);
  EXPECT_EQ(job.micro_batch_size, 1);
  EXPECT_EQ(job.global_batch_size, 1536);
  EXPECT_EQ(job.microbatches(), 24);
  EXPECT_EQ(job.seq_len, 2048);
  EXPECT_TRUE(job.sequence_parallel);
  EXPECT_EQ(job.zero_stage, 1);
  EXPECT_EQ(job.recompute, graph::Recompute::kNone);
}

TEST(JobResolution, every_model_gets_a_layout_that_fills_the_gpus) {
  for (const std::string model :
       {"gpt3-1.3b", "gpt3-13b", "gpt3-175b", "megatron-1t", "llama3-8b", "llama3-70b"}) {
    const Result<ResolvedJob> resolved = Resolve({"--model", model, "--target-gpus", "1024"});
    ASSERT_TRUE(resolved.ok()) << model << ": " << resolved.status().message();
    EXPECT_EQ(resolved->job.parallel.world_size(), 1024) << model;
    EXPECT_LE(resolved->job.parallel.tp, 8) << model;
    EXPECT_GE(resolved->job.microbatches(), 1) << model;
  }
}

// A tp rank has 35 G parameters: 70 GB of values and 141 GB of gradients, shared out or not.
TEST(JobResolution, sharded_states_leave_room_for_a_shorter_pipeline) {
  const auto stages = [](const std::string& zero) {
    const Result<ResolvedJob> resolved =
        Resolve({"--model", "llama3-70b", "--target-gpus", "64", "--tp", "2", "--recompute", "full",
                 "--zero", zero});
    EXPECT_TRUE(resolved.ok()) << resolved.status().message();
    return resolved.ok() ? resolved->job.parallel.pp : 0;
  };
  EXPECT_EQ(stages("1"), 8);
  EXPECT_EQ(stages("2"), 4);
  EXPECT_EQ(stages("3"), 1);
}

TEST(JobResolution, what_does_not_divide_says_what_and_what_instead) {
  EXPECT_THAT(Refusal({"--tp", "7"}), HasSubstr("--tp 7 does not divide the 96 attention heads"));
  EXPECT_THAT(Refusal({"--target-gpus", "8191"}), HasSubstr("use 8184 or 8192"));
  EXPECT_THAT(Refusal({"--tp", "8", "--pp", "5"}), HasSubstr("96 layers"));
  EXPECT_THAT(Refusal({"--tp", "8", "--pp", "16", "--target-gpus", "192"}),
              HasSubstr("not a multiple of tp 8 × pp 16"));
  EXPECT_THAT(Refusal({"--dp", "3"}), HasSubstr("--dp 3"));
  EXPECT_THAT(Refusal({"--global-batch-size", "100"}), HasSubstr("use 64 or 128"));
}

TEST(JobResolution, interleaving_that_allows_no_layout_is_named) {
  EXPECT_EQ(Refusal({"--model", "gpt3-1.3b", "--target-gpus", "8", "--vpp", "5"}),
            "--vpp 5 × no --pp divides the 24 layers of gpt3-1.3b or that number plus two; use one "
            "of 1, 2, 3, 4, 6, 8, 12");
  EXPECT_EQ(Refusal({"--vpp", "2", "--pp", "1"}),
            "--vpp 2 needs a pipeline; use --pp 2 or more, or leave --vpp out");
  // It leaves pp 2 or 7; 64 GPUs allow 2, with too little memory.
  EXPECT_THAT(Refusal({"--target-gpus", "64", "--vpp", "7"}),
              AllOf(HasSubstr("no layout of 64 GPUs with --vpp 7 divides"),
                    HasSubstr("use another --vpp, or leave it out")));
  const Result<ResolvedJob> pipeline =
      Resolve({"--model", "gpt3-1.3b", "--target-gpus", "8", "--vpp", "2"});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  EXPECT_EQ(pipeline->job.parallel.pp, 2);
}

TEST(JobResolution, models_that_the_built_in_program_is_not_are_refused) {
  EXPECT_THAT(Refusal({"--model", "deepseek-v3", "--target-gpus", "64"}),
              HasSubstr("the built-in program does not support latent attention"));
  ModelPreset model = *LoadModel("llama3-8b");
  model.model.head_dim = 64;
  const CommandLine line = *ParseCommandLine({"--target-gpus", "64"});
  EXPECT_TRUE(ResolveJob(line.options, model, *LoadCluster("h100-8x")).ok());
  model.model.sliding_window = 64;
  EXPECT_THAT(ResolveJob(line.options, model, *LoadCluster("h100-8x")).status().message(),
              HasSubstr("a sliding window"));
}

TEST(JobResolution, the_emptiest_layout_is_taken_where_none_leaves_a_quarter_free) {
  const Result<ResolvedJob> tight =
      Resolve({"--model", "mixtral-8x7b", "--target-gpus", "8", "--cluster", "h200-8x"});
  ASSERT_TRUE(tight.ok()) << tight.status().message();
  EXPECT_EQ(tight->job.parallel.tp, 8);
  EXPECT_EQ(tight->layout_origin, "chosen to fit: about 77 % of NVIDIA H200's memory");
}

TEST(JobResolution, experts_are_divided_inside_of_dp) {
  const auto mixtral = [](std::vector<std::string> more) {
    std::vector<std::string> args = {"--model", "mixtral-8x7b", "--target-gpus", "64"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const Result<ResolvedJob> resolved = Resolve(mixtral({"--ep", "8"}));
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  EXPECT_EQ(resolved->job.parallel.ep, 8);
  EXPECT_EQ(resolved->job.parallel.etp, resolved->job.parallel.tp);
  EXPECT_EQ(resolved->job.parallel.dp % 8, 0);
  // The preset's ep, or as much of it as the replicas allow.
  EXPECT_EQ(Resolve(mixtral({}))->job.parallel.ep, 8);
  EXPECT_EQ(Resolve(mixtral({"--tp", "4", "--pp", "4"}))->job.parallel.ep, 4);
  // Without ep the states of all experts have to fit.
  const Result<ResolvedJob> local = Resolve(mixtral({"--ep", "1"}));
  ASSERT_TRUE(local.ok()) << local.status().message();
  EXPECT_EQ(local->job.parallel.ep, 1);
  EXPECT_GT(local->job.parallel.tp * local->job.parallel.pp,
            resolved->job.parallel.tp * resolved->job.parallel.pp);

  EXPECT_THAT(Refusal({"--ep", "2"}), HasSubstr("gpt3-175b has no experts"));
  EXPECT_THAT(Refusal(mixtral({"--ep", "3"})), HasSubstr("the 8 experts of mixtral-8x7b"));
  EXPECT_THAT(Refusal(mixtral({"--tp", "8", "--pp", "4", "--ep", "4"})),
              HasSubstr("--ep 4 does not divide dp 2"));
  EXPECT_THAT(Refusal(mixtral({"--tp", "2", "--pp", "4", "--ep", "4", "--cp", "2"})),
              HasSubstr("cannot combine context parallelism with experts"));
  EXPECT_THAT(Refusal(mixtral({"--tp", "2", "--pp", "4", "--sequence-parallel", "off"})),
              HasSubstr("--sequence-parallel off"));
  EXPECT_THAT(Refusal(mixtral({"--zero", "3"})), HasSubstr("use --zero 2"));
  EXPECT_THAT(Refusal(mixtral({"--routing", "zipf:1"})),
              HasSubstr("--routing zipf:1: the built-in program"));
}

TEST(JobResolution, given_sizes_are_kept) {
  const Result<ResolvedJob> resolved =
      Resolve({"--model", "gpt3-1.3b", "--target-gpus", "16", "--tp", "2", "--pp", "4",
               "--global-batch-size", "16", "--zero", "0", "--recompute", "full"});
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  EXPECT_EQ(resolved->job.parallel.dp, 2);
  EXPECT_EQ(resolved->job.microbatches(), 8);
  EXPECT_EQ(resolved->job.zero_stage, 0);
  EXPECT_EQ(resolved->job.recompute, graph::Recompute::kFull);
}

// Of a user's program on 8 GPUs.
Result<ResolvedJob> ResolveProgram(std::vector<std::string> program) {
  Options options;
  options.target_gpus = 8;
  options.program = std::move(program);
  graph::ClusterSpec cluster;
  cluster.gpus_per_node = 8;
  return ResolveProgramJob(options, cluster);
}

TEST(JobResolution, a_program_is_named_by_its_script) {
  const auto name = [](std::vector<std::string> program) {
    const Result<ResolvedJob> resolved = ResolveProgram(std::move(program));
    return resolved.ok() ? resolved->job.name : resolved.status().message();
  };
  EXPECT_EQ(name({"/usr/bin/python3", "-u", "folder/train.py", "--steps"}), "train");
  EXPECT_EQ(name({"python", "-m", "package.train"}), "package.train");
  EXPECT_EQ(name({"/opt/bin/trainer", "x.py"}), "trainer");
  EXPECT_EQ(name({"env", "A=1", "B=2", "python", "train.py"}), "train");
  EXPECT_EQ(name({"env", "A=1"}), "env");
  EXPECT_EQ(name({"python", "-W", "ignore", "-X", "dev", "train.py"}), "train");
  EXPECT_EQ(name({"python", "-Wignore", "-um", "package.train", "-W"}), "package.train");
  EXPECT_EQ(name({"python", "--check-hash-based-pycs", "never", "--", "train.py"}), "train");
  EXPECT_EQ(name({"python", "-c", "import train"}), "python");
  EXPECT_EQ(name({"env", "-u", "A", "--chdir=x", "B=1", "python3.12", "train.py"}), "train");
}

TEST(JobResolution, script_of_an_interpreter_is_known_unless_its_folder_is_not) {
  for (const std::vector<std::string>& program : std::vector<std::vector<std::string>>{
           {"python", "a/train.py", "b.py"},
           {"/usr/bin/python3.12", "-u", "-W", "ignore", "-Xdev", "a/train.py"},
           {"env", "-u", "CC", "A=1", "python", "--", "a/train.py"}}) {
    EXPECT_EQ(ProgramScript(program), "a/train.py");
  }
  for (const std::vector<std::string>& program :
       std::vector<std::vector<std::string>>{{"python"},
                                             {"python", "-m", "train", "x.py"},
                                             {"python", "-c", "import train", "x.py"},
                                             {"python", "--new-option", "x.py"},
                                             {"python", "folder"},
                                             {"./train", "x.py"},
                                             {"env", "-C", "elsewhere", "python", "train.py"},
                                             {"env", "--chdir=elsewhere", "python", "train.py"}}) {
    EXPECT_EQ(ProgramScript(program), "") << program.back();
  }
}

TEST(JobResolution, options_that_change_nothing_of_a_program_are_named) {
  const auto without_effect = [](const std::vector<std::string>& arguments) {
    return OptionsWithoutEffect(ParseCommandLine(arguments)->options);
  };
  EXPECT_THAT(without_effect({"--tp", "2", "--seq-len", "64", "--global-batch-size", "8"}),
              IsEmpty());
  EXPECT_THAT(without_effect({"--vpp", "3", "--zero", "2", "--micro-batch-size", "1"}),
              ElementsAre("--vpp", "--zero", "--micro-batch-size without --seq-len"));
  Options options;
  options.target_gpus = 8;
  options.program = {"python"};
  graph::ClusterSpec cluster;
  cluster.gpus_per_node = 8;
  const graph::JobSpec plain = ResolveProgramJob(options, cluster)->job;
  options.vpp = 3;
  options.pp = 1;
  options.zero = 3;
  options.recompute = graph::Recompute::kFull;
  options.sequence_parallel = true;
  EXPECT_EQ(ResolveProgramJob(options, cluster)->job, plain);
}

// What is not understood is reported.
TEST(JobResolution, a_command_that_is_not_understood_is_refused) {
  const auto refusal = [](std::vector<std::string> program) {
    const Result<ResolvedJob> resolved = ResolveProgram(std::move(program));
    return resolved.ok() ? "" : std::string(resolved.status().message());
  };
  for (const char* flag : {"-i", "-", "-vi", "--ignore-environment"}) {
    EXPECT_THAT(refusal({"env", flag, "torchrun", "train.py"}),
                HasSubstr("removes the environment"));
  }
  EXPECT_THAT(refusal({"env", "-S", "python train.py"}), HasSubstr("the option -S in front"));
  EXPECT_THAT(refusal({"python", "--new-option", "x", "train.py"}),
              HasSubstr("the option --new-option in front"));
}

}  // namespace
}  // namespace prism::launch
