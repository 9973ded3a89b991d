#include "launch/inputs/options.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/check.h"
#include "launch/inputs/job_resolution.h"
#include "launch/inputs/presets.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sets a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

std::string WriteConfig(const std::string& text) {
  static const ScratchFolder folder;
  const std::string path = folder / "config.toml";
  std::ofstream(path) << text;
  return path;
}

Status Refusal(const std::vector<std::string>& arguments) {
  const Result<CommandLine> line = ParseCommandLine(arguments);
  return line.ok() ? OkStatus() : line.status();
}

TEST(Options, flag_beats_environment_beats_config_beats_default) {
  const std::string config = WriteConfig("[job]\ntp = 2\npp = 2\nseq_len = 128\n");
  const ScopedVariable pp("PRISM_PP", "4");
  const ScopedVariable tp("PRISM_TP", "4");
  const Result<CommandLine> line = ParseCommandLine({"--tp", "8", "--config", config});
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_EQ(line->options.tp, 8);
  EXPECT_EQ(line->options.pp, 4);
  EXPECT_EQ(line->options.seq_len, 128);
  EXPECT_EQ(line->options.target_gpus, 8192);
}

TEST(Options, underscores_count_as_dashes_in_names_only) {
  const Result<CommandLine> line =
      ParseCommandLine({"--micro_batch_size=4", "--sandbox_ranks", "role:a_b"});
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_EQ(line->options.micro_batch_size, 4);
  EXPECT_EQ(line->options.sandbox_ranks, "role:a_b");
}

TEST(Options, repeatable_options_keep_every_value) {
  const Result<CommandLine> line =
      ParseCommandLine({"--perturb", "straggler:1:2", "--perturb", "jitter:0.1"});
  ASSERT_TRUE(line.ok());
  ASSERT_EQ(line->options.perturb.size(), 2U);
  EXPECT_EQ(line->options.perturb[0].text, "straggler:1:2");
  EXPECT_EQ(line->options.perturb[1].text, "jitter:0.1");
}

TEST(Options, variable_has_several_values_of_a_repeatable_option) {
  const ScopedVariable perturb("PRISM_PERTURB", " straggler:1:2  jitter:0.1 ");
  const ScopedVariable out("PRISM_OUT", "a folder");
  const Result<CommandLine> line = ParseCommandLine({});
  ASSERT_TRUE(line.ok()) << line.status().message();
  ASSERT_EQ(line->options.perturb.size(), 2U);
  EXPECT_EQ(line->options.perturb[0].text, "straggler:1:2");
  EXPECT_EQ(line->options.perturb[1].text, "jitter:0.1");
  EXPECT_EQ(line->options.out, "a folder");
  EXPECT_EQ(ParseCommandLine({"--perturb", "late:3:1"})->options.perturb.size(), 1U);
  const ScopedVariable blank("PRISM_PERTURB", "  ");
  EXPECT_EQ(Refusal({}).message(), "PRISM_PERTURB is empty; give it a value or unset it");
}

TEST(Options, option_given_twice_is_refused_unless_it_is_repeatable) {
  EXPECT_EQ(Refusal({"--tp", "8", "--tp=4"}).message(),
            "--tp is given twice, as '8' and '4'; give it once");
  EXPECT_TRUE(ParseCommandLine({"--quiet", "--quiet"}).ok());
}

TEST(Options, word_with_two_dashes_is_no_value) {
  EXPECT_EQ(Refusal({"--out", "--force"}).message(), "--out needs a value; see --help");
  EXPECT_EQ(Refusal({"--target_gpus", "--model", "llama3-8b"}).message(),
            "--target-gpus needs a value; see --help");
  EXPECT_THAT(Refusal({"--seed", "-5"}).message(), HasSubstr("'-5' is not"));
}

TEST(Options, switch_takes_no_value_or_a_word) {
  for (const char* wrong : {"--force=maybe", "--force=2", "--force="}) {
    EXPECT_THAT(Refusal({wrong}).message(), HasSubstr("--force: '")) << wrong;
  }
  EXPECT_TRUE(ParseCommandLine({"--force=true"})->options.force);
  const ScopedVariable force("PRISM_FORCE", "on");
  EXPECT_TRUE(ParseCommandLine({})->options.force);
  EXPECT_FALSE(ParseCommandLine({"--force=off"})->options.force);
}

TEST(Options, empty_variable_is_refused) {
  const ScopedVariable tp("PRISM_TP", "");
  EXPECT_EQ(Refusal({}).message(), "PRISM_TP is empty; give it a value or unset it");
  EXPECT_TRUE(ParseCommandLine({"--tp", "8"}).ok());
}

TEST(Options, variables_of_the_environment_are_named_in_refusals) {
  setenv("PRISM_TP", "7", 1);
  setenv("PRISM_WHATEVER", "1", 1);
  const Result<CommandLine> line = ParseCommandLine({"--pp", "2"});
  unsetenv("PRISM_TP");
  unsetenv("PRISM_WHATEVER");
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(line->unknown_variables, ::testing::Contains("PRISM_WHATEVER"));
  EXPECT_EQ(NamingOrigins(line->options, InvalidArgument("--tp 7 is odd")).message(),
            "--tp 7 is odd; --tp is set by PRISM_TP");
  EXPECT_EQ(NamingOrigins(line->options, InvalidArgument("9 is no multiple of tp 7")).message(),
            "9 is no multiple of tp 7; --tp is set by PRISM_TP");
  for (const char* other : {"--pp 2 is odd", "--tpp is odd", "tp 77 is odd", "a tp 71 is odd"}) {
    EXPECT_EQ(NamingOrigins(line->options, InvalidArgument(other)).message(), other);
  }
  EXPECT_EQ(AtOrigin(line->options, {"tp"}, InvalidArgument("7 is odd")).message(),
            "PRISM_TP: 7 is odd");
  EXPECT_EQ(AtOrigin(line->options, {"tp"}, InvalidArgument("--tp 7 is odd")).message(),
            "--tp 7 is odd");
  EXPECT_EQ(AtOrigin(line->options, {"pp"}, InvalidArgument("2 is odd")).message(), "2 is odd");
}

TEST(Options, config_file_is_named_where_it_contradicts_the_command_line) {
  const std::string config = WriteConfig("dp = 64\n");
  const Result<CommandLine> line = ParseCommandLine({"--target-gpus", "8", "--config", config});
  ASSERT_TRUE(line.ok()) << line.status().message();
  const Status odd = InvalidArgument("--dp 64 is not --target-gpus 8");
  EXPECT_EQ(
      NamingOrigins(line->options, AtOrigin(line->options, {"target_gpus", "dp"}, odd)).message(),
      odd.message() + "; dp = 64 is set in " + config);
  const Status alone = AtOrigin(line->options, {"dp"}, odd);
  EXPECT_EQ(NamingOrigins(line->options, alone).message(), alone.message());
}

TEST(Options, unknown_option_names_the_nearest_one) {
  const Status status = Refusal({"--target-gpu", "16"});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--target-gpus"));
}

TEST(Options, gpus_is_a_shorter_name) {
  EXPECT_EQ(ParseCommandLine({"--gpus=16"})->options,
            ParseCommandLine({"--target-gpus=16"})->options);
  EXPECT_THAT(Refusal({"--gpus", "8", "--target-gpus", "8"}).message(), HasSubstr("given twice"));
}

TEST(Options, names_that_are_not_near_are_not_suggested) {
  EXPECT_EQ(NearestName("help", {"ep", "tp"}), "");
  EXPECT_EQ(NearestName("nnodes", {"model"}), "");
  EXPECT_EQ(NearestName("nodes", {"model"}), "");
  EXPECT_EQ(NearestName("tpp", {"pp", "tp"}), "pp");
  EXPECT_EQ(NearestName("gpu_per_node", {"gpu", "gpus_per_node"}), "gpus_per_node");
  EXPECT_EQ(NearestName("num_layers", {"layers"}), "layers");
  EXPECT_EQ(NearestName("dry", {"dp", "dry-run"}), "dry-run");
}

TEST(Options, program_goes_after_two_dashes) {
  EXPECT_EQ(Refusal({"--tp", "2", "python", "train.py", "--lr", "0.1"}).message(),
            "unexpected argument 'python'; a program goes after --: -- python train.py --lr 0.1");
  EXPECT_EQ(Refusal({"8192"}).message(), "unexpected argument '8192'; see --help");
}

TEST(Options, values_that_have_not_landed_are_refused) {
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
           {"--network", "packet"}, {"--zero", "4"}, {"--host-time", "measured:0"}}) {
    EXPECT_EQ(Refusal({option, value}).code(), StatusCode::kInvalidArgument) << option;
  }
}

TEST(Options, numbers_have_to_be_numbers_in_range) {
  EXPECT_EQ(Refusal({"--tp", "0"}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal({"--tp", "8x"}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal({"--tp"}).code(), StatusCode::kInvalidArgument);
}

TEST(Options, routing_is_uniform_or_by_the_law_of_zipf) {
  EXPECT_EQ(ParseCommandLine({"--routing", "zipf:1.2"})->options.routing, "zipf:1.2");
  for (const char* text : {"zipf", "zipf:", "zipf:0", "zipf:x", "zipf:1x", "zipf:1e9", "random"}) {
    EXPECT_EQ(Refusal({"--routing", text}).code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Options, what_a_config_file_gets_wrong_is_a_bad_file_with_its_line) {
  const Status unknown = Refusal({"--config", WriteConfig("\n[job]\ntpp = 2\n")});
  EXPECT_EQ(unknown.code(), StatusCode::kBadFile);
  EXPECT_THAT(unknown.message(), HasSubstr(":3: unknown key 'tpp'; did you mean 'tp'?"));
  EXPECT_EQ(Refusal({"--config", WriteConfig("tp = \"many\"\n")}).code(), StatusCode::kBadFile);
  EXPECT_EQ(Refusal({"--config", WriteConfig("tp = \n")}).code(), StatusCode::kBadFile);
  EXPECT_EQ(Refusal({"--config", "absent.toml"}).code(), StatusCode::kBadFile);
  EXPECT_EQ(Refusal({"--config", WriteConfig("# nothing\n")}).code(), StatusCode::kBadFile);
}

TEST(Options, only_keys_that_a_config_file_may_have_there_are_suggested) {
  for (const char* text : {"config = \"x\"\n", "help = true\n", "[cluster]\ntpp = 2\n"}) {
    const Status status = Refusal({"--config", WriteConfig(text)});
    EXPECT_EQ(status.code(), StatusCode::kBadFile) << text;
    EXPECT_THAT(status.message(), Not(HasSubstr("did you mean"))) << text;
  }
  EXPECT_THAT(Refusal({"--config", WriteConfig("[clustr]\n")}).message(),
              HasSubstr("did you mean 'cluster'?"));
}

TEST(Options, every_option_is_in_the_help_once) {
  const std::string help = HelpText();
  std::set<std::string> names;
  for (const OptionRow& row : OptionTable()) {
    EXPECT_TRUE(names.insert(row.flag).second) << row.flag;
    EXPECT_THAT(help, HasSubstr(" " + row.dashed() + " "));
  }
}

// A default that is not its member's initial value is described in words.
TEST(Options, default_texts_are_the_values_of_options_that_are_not_given) {
  const std::set<std::string> described = {"",
                                           "none",
                                           "by preset",
                                           "60, and a share of the recording",
                                           "until every kind of step was seen twice",
                                           "the rest",
                                           "prism-out/<job>-<n>gpus",
                                           "those in --sandbox-ranks",
                                           "the launcher's, else all GPUs"};
  const auto job = [](const Options& options) {
    const Result<ModelPreset> model = LoadModel(options.model);
    const Result<graph::ClusterSpec> cluster = LoadCluster(options.cluster);
    PRISM_CHECK(model.ok() && cluster.ok());
    const Result<ResolvedJob> resolved = ResolveJob(options, *model, *cluster);
    PRISM_CHECK(resolved.ok());
    return resolved->job;
  };
  const Options plain = ParseCommandLine({})->options;
  int literal = 0;
  for (const OptionRow& row : OptionTable()) {
    if (described.contains(row.default_text)) {
      continue;
    }
    ++literal;
    const std::string flag = row.dashed();
    const Result<CommandLine> line = ParseCommandLine({flag, row.default_text});
    ASSERT_TRUE(line.ok()) << flag << ": " << line.status().message();
    Options given = line->options;
    EXPECT_EQ(job(given), job(plain)) << flag;
    given.given.clear();
    // Left open, so that a graph or a program may set it; the job above has a value.
    given.cp.reset();
    given.ep.reset();
    given.sequence_parallel.reset();
    given.zero.reset();
    EXPECT_TRUE(given == plain) << flag << " " << row.default_text;
  }
  EXPECT_GE(literal, 20);
}

TEST(Options, printed_config_gives_the_same_options_again) {
  const Result<CommandLine> line = ParseCommandLine(
      {"--target-gpus", "32", "--perturb", "jitter:0.1", "--on-mismatch", "adopt", "--strict",
       "--max-error", "2.5%", "--host-time", "fixed:python", "--memory-snapshot", "all", "--device",
       "cuda", "--device-scale", "1.25", "--stall-timeout", "5"});
  ASSERT_TRUE(line.ok());
  graph::JobSpec job;
  job.parallel.tp = 4;
  job.parallel.dp = 8;
  job.seq_len = 2048;
  const std::string text = ConfigText(line->options, job);
  const Result<CommandLine> again = ParseCommandLine({"--config", WriteConfig(text)});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->options.target_gpus, 32);
  EXPECT_EQ(again->options.stall_timeout_s, 5);
  EXPECT_EQ(again->options.tp, 4);
  EXPECT_EQ(again->options.dp, std::nullopt);
  EXPECT_EQ(again->options.global_batch_size, std::nullopt);
  EXPECT_EQ(again->options.on_mismatch, OnMismatch::kAdopt);
  EXPECT_EQ(again->options.host_framework, "python");
  EXPECT_EQ(again->options.memory_snapshot, "all");
  EXPECT_TRUE(again->options.strict);
  EXPECT_EQ(again->options.max_error_pct, 2.5);
  EXPECT_EQ(again->options.device, Device::kCuda);
  EXPECT_EQ(again->options.device_scale, 1.25);
  EXPECT_EQ(ConfigText(again->options, job), text);
}

TEST(Options, printed_config_says_where_host_times_are_from) {
  for (const std::string from :
       {"auto", "fixed", "fixed:eager", "measured:2", "python", "a/host.toml"}) {
    const Result<CommandLine> line = ParseCommandLine({"--host-time", from});
    ASSERT_TRUE(line.ok()) << line.status().message();
    EXPECT_THAT(ConfigText(line->options, {}), HasSubstr("host_time = \"" + from + "\"\n"));
  }
}

TEST(Options, printed_config_keeps_sizes_that_were_given) {
  const Result<CommandLine> line = ParseCommandLine({"--dp", "8", "--global-batch-size", "64"});
  ASSERT_TRUE(line.ok());
  graph::JobSpec job;
  job.parallel.dp = 8;
  job.global_batch_size = 64;
  const std::string text = ConfigText(line->options, job);
  EXPECT_THAT(text, HasSubstr("\ndp = 8\n"));
  EXPECT_THAT(text, HasSubstr("\nglobal_batch_size = 64\n"));
}

// A program may have a different layout from the one that was asked for.
TEST(Options, config_of_a_program_says_what_was_given) {
  const Result<CommandLine> line = ParseCommandLine(
      {"--target-gpus", "64", "--tp", "2", "--pp", "4", "--out", "x", "--", "python", "ddp.py"});
  ASSERT_TRUE(line.ok()) << line.status().message();
  graph::JobSpec found;
  found.user_program = true;
  found.parallel.dp = 64;
  const std::string text = ConfigText(line->options, found);
  EXPECT_THAT(text, HasSubstr("tp = 2\npp = 4\n"));
  EXPECT_THAT(text, Not(HasSubstr("dp = ")));
  const Result<CommandLine> again = ParseCommandLine({"--config", WriteConfig(text)});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->options.tp, 2);
  EXPECT_EQ(again->options.pp, 4);
}

}  // namespace
}  // namespace prism::launch
