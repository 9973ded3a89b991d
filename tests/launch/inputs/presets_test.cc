#include "launch/inputs/presets.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/cluster_text.h"
#include "launch/inputs/host_costs.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;

std::string TextOf(std::string_view name) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.name == name) {
      return std::string(preset.text);
    }
  }
  return {};
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Presets, all_of_the_build_are_whole_and_name_their_source) {
  EXPECT_GE(EmbeddedPresets().size(), 51U);
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    const std::string name(preset.name);
    if (preset.kind == PresetKind::kModel) {
      const Result<ModelPreset> model = LoadModel(name);
      ASSERT_TRUE(model.ok()) << model.status().message();
      EXPECT_EQ(model->model.name, name);
      EXPECT_FALSE(model->model.source.empty());
    } else if (preset.kind == PresetKind::kProfile) {
      Profile profile;
      const Status added = AddProfile(name, {}, &profile);
      ASSERT_TRUE(added.ok()) << added.message();
      EXPECT_FALSE(profile.source.empty());
      EXPECT_FALSE(profile.parameters.empty());
    } else if (preset.kind == PresetKind::kHost) {
      const Result<HostCosts> costs = ParseHostCosts(preset.text, name);
      ASSERT_TRUE(costs.ok()) << costs.status().message();
      EXPECT_FALSE(costs->source.empty());
    } else {
      const Result<graph::ClusterSpec> cluster = LoadCluster(name);
      ASSERT_TRUE(cluster.ok()) << cluster.status().message();
      EXPECT_EQ(cluster->name, name);
    }
  }
}

TEST(Presets, a_cluster_written_out_is_the_same_without_profiles) {
  for (const std::string& name : PresetNames(PresetKind::kCluster)) {
    graph::ClusterSpec cluster = *LoadCluster(name);
    cluster.name = "with \"quotes\" and a \\";
    const Result<graph::ClusterSpec> again = ParseCluster(ClusterText(cluster), "out.toml");
    ASSERT_TRUE(again.ok()) << name << ": " << again.status().message();
    EXPECT_EQ(*again, cluster) << name;
  }
}

TEST(Presets, what_a_source_does_not_state_is_not_measured) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    std::istringstream lines{std::string(preset.text)};
    for (std::string line; std::getline(lines, line);) {
      if (line.find("not stated") != std::string::npos ||
          line.find("taken for granted\", mark") != std::string::npos) {
        EXPECT_THAT(line, HasSubstr("mark = \"assumed\"")) << preset.name;
      }
    }
  }
}

TEST(Presets, models_have_about_the_parameters_of_their_name) {
  const auto billions = [](const char* name) {
    return static_cast<double>(graph::ModelParameters(LoadModel(name)->model)) * 1e-9;
  };
  EXPECT_NEAR(billions("gpt3-1.3b"), 1.3, 0.05);
  EXPECT_NEAR(billions("gpt3-13b"), 13, 0.3);
  EXPECT_NEAR(billions("gpt3-175b"), 175, 1);
  EXPECT_NEAR(billions("mt-nlg-530b"), 530, 2);
  EXPECT_NEAR(billions("megatron-1t"), 1008, 2);  // its source's table says 1008
  EXPECT_NEAR(billions("llama3-8b"), 8.03, 0.02);
  EXPECT_NEAR(billions("llama3-70b"), 70.6, 0.2);
  EXPECT_NEAR(billions("llama3-405b"), 405.9, 1);
  EXPECT_NEAR(billions("mixtral-8x7b"), 46.7, 0.05);  // "47B" in its source
  EXPECT_NEAR(billions("deepseek-v3"), 671, 0.5);
}

// As config.json of their repositories gives them, counted by transformers; the first ones and
// those of Nemotron also in their sources' tables.
TEST(Presets, models_have_exactly_the_published_parameters) {
  const std::map<std::string, int64_t> published = {
      {"llama3-8b", 8'030'261'248},         {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},     {"mixtral-8x7b", 46'702'792'704},
      {"llama2-7b", 6'738'415'616},         {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},       {"llama3.2-1b", 1'235'814'400},
      {"llama3.2-3b", 3'212'749'824},       {"llama4-scout", 107'769'861'120},
      {"llama4-maverick", 400'711'848'960}, {"mistral-7b", 7'241'732'096},
      {"mixtral-8x22b", 140'620'634'112},   {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-32b", 32'763'876'352},      {"qwen2.5-72b", 72'706'203'648},
      {"qwen3-0.6b", 596'049'920},          {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},          {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},        {"qwen3-32b", 32'762'123'264},
      {"qwen3-30b-a3b", 30'532'122'624},    {"qwen3-235b-a22b", 235'093'634'560},
      {"gpt-oss-20b", 20'914'757'184},      {"gpt-oss-120b", 116'829'156'672},
      {"kimi-k2", 1'026'408'232'448},       {"nemotron4-15b", 15'628'775'424},
      {"nemotron4-340b", 341'029'195'776},  {"glm4-9b", 9'399'951'360},
      {"glm4-32b", 32'566'081'536},         {"glm4.5", 352'797'829'024},
      {"glm4.5-air", 106'852'251'264},      {"gemma2-9b", 9'241'705'984},
      {"gemma2-27b", 27'227'128'320},       {"gemma3-12b", 11'766'034'176},
      {"gemma3-27b", 27'009'346'304},       {"phi4", 14'659'507'200},
  };
  for (const auto& [name, parameters] : published) {
    const Result<ModelPreset> preset = LoadModel(name);
    ASSERT_TRUE(preset.ok()) << preset.status().message();
    EXPECT_EQ(preset->Parameters(), parameters) << name;
    EXPECT_TRUE(preset->uncounted_parameters == 0 || !preset->assumptions.empty()) << name;
  }
  EXPECT_EQ(PresetNames(PresetKind::kModel).size(), published.size() + 6);
}

TEST(Presets, unknown_name_is_a_usage_error_with_the_nearest_name) {
  const Result<graph::ClusterSpec> cluster = LoadCluster("h100-8");
  ASSERT_FALSE(cluster.ok());
  EXPECT_EQ(cluster.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(cluster.status().message(), HasSubstr("did you mean h100-8x?"));
  EXPECT_EQ(LoadModel("absent.toml").status().code(), StatusCode::kBadFile);
}

TEST(Presets, the_profile_nearer_to_the_cluster_counts) {
  const Result<graph::ClusterSpec> a100 = LoadCluster("a100-80-8x");
  const Result<graph::ClusterSpec> small = LoadCluster("a100-40-8x");
  EXPECT_EQ(a100->parameters.Value("gpu.hbm_bytes_per_s"), 2.0e12);
  EXPECT_EQ(small->parameters.Value("gpu.hbm_bytes_per_s"), 1.555e12);
  EXPECT_EQ(small->gpu.memory_bytes, 42298834944);
  const std::string text = TextOf("a100-40-8x") +
                           "[parameters]\ngpu.hbm_bytes_per_s = { value = 1e12, unit = \"byte/s\", "
                           "source = \"test\", mark = \"assumed\" }\n";
  const Result<graph::ClusterSpec> slow = ParseCluster(text, "c.toml");
  ASSERT_TRUE(slow.ok()) << slow.status().message();
  EXPECT_EQ(slow->parameters.Value("gpu.hbm_bytes_per_s"), 1e12);
}

TEST(Presets, files_that_were_read_are_noted_and_built_in_presets_are_not) {
  const ScratchFolder folder;
  const std::string path = folder / "model.toml";
  std::ofstream(path) << TextOf("gpt3-13b");
  InputHashes read;
  ASSERT_TRUE(LoadModel(path, &read).ok());
  ASSERT_TRUE(LoadModel("gpt3-13b", &read).ok());
  ASSERT_TRUE(LoadCluster("h100-8x", &read).ok());
  EXPECT_EQ(read, (InputHashes{{path, HashText(TextOf("gpt3-13b"))}}));
}

TEST(Presets, a_profile_that_is_not_there_is_refused_by_name) {
  const std::string text = Replaced(TextOf("h100-8x"), "gpus/h100-80", "gpus/h100-8");
  const Status status = ParseCluster(text, "c.toml").status();
  EXPECT_EQ(status.code(), StatusCode::kBadFile);
  EXPECT_THAT(status.message(), HasSubstr("c.toml:4: profiles: unknown profile 'gpus/h100-8'"));
  EXPECT_THAT(status.message(), HasSubstr("did you mean gpus/h100-80?"));
  Profile profile;
  EXPECT_EQ(AddProfile("gpus/h100-8", {}, &profile).code(), StatusCode::kInvalidArgument);
}

TEST(Presets, a_name_that_leads_to_another_folder_is_refused) {
  for (const char* name : {"../../x", "a/b", "/x", ".", ".."}) {
    const std::string text = Replaced(TextOf("gpt3-13b"), "gpt3-13b", name);
    const Status status = ParseModel(text, "m.toml").status();
    EXPECT_EQ(status.code(), StatusCode::kBadFile) << name;
    EXPECT_THAT(status.message(), HasSubstr("m.toml:1: name: '")) << name;
  }
}

TEST(Presets, a_framework_brings_its_host_costs_and_nothing_else) {
  const Result<graph::ClusterSpec> cluster = LoadCluster("h100-8x");
  graph::ClusterSpec with_python = *cluster;
  ASSERT_TRUE(UseFramework("python", &with_python).ok());
  EXPECT_EQ(with_python.parameters.Value("host.kernel_ns"), 11300);
  EXPECT_EQ(with_python.parameters.Find("host.kernel_ns")->mark, graph::Mark::kMeasured);
  for (const graph::Parameter& parameter : cluster->parameters.all()) {
    if (parameter.key != "host.kernel_ns") {
      EXPECT_EQ(*with_python.parameters.Find(parameter.key), parameter);
    }
  }
  const Status refused = UseFramework("pythons", &with_python);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("choose one of eager, "));
}

TEST(Presets, damage_is_refused_with_its_line_and_key) {
  const std::string model = TextOf("gpt3-13b");
  const std::string negative = Replaced(model, "layers = 40", "layers = -1");
  EXPECT_THAT(ParseModel(negative, "m.toml").status().message(), HasSubstr("layers: a whole"));
  const std::string misspelt = Replaced(model, "vocab =", "vocabulary =");
  EXPECT_THAT(ParseModel(misspelt, "m.toml").status().message(),
              HasSubstr("vocabulary: unknown key; did you mean 'vocab'?"));
  const std::string no_source = Replaced(model, "source =", "# source =");
  EXPECT_EQ(ParseModel(no_source, "m.toml").status().message(),
            "m.toml: the key 'source' is missing");
  EXPECT_EQ(ParseModel("name = ", "m.toml").status().code(), StatusCode::kBadFile);

  const std::string experts = TextOf("mixtral-8x7b");
  const std::string too_many = Replaced(experts, "topk = 2", "topk = 9");
  EXPECT_THAT(ParseModel(too_many, "m.toml").status().message(), HasSubstr("topk (9) is larger"));
  const std::string no_width = Replaced(experts, "expert_ffn = 14336", "ffn = 14336");
  EXPECT_THAT(ParseModel(no_width, "m.toml").status().message(),
              HasSubstr("moe.ffn: unknown key; did you mean 'expert_ffn'?"));
  const std::string uneven = Replaced(experts, "ep = 8", "ep = 3");
  EXPECT_THAT(ParseModel(uneven, "m.toml").status().message(), HasSubstr("layout.ep (3)"));
  const std::string deep = Replaced(experts, "topk = 2", "topk = 2\ndense_layers = 1");
  EXPECT_THAT(ParseModel(deep, "m.toml").status().message(), HasSubstr("ffn"));
  const std::string wide = Replaced(experts, "head_dim = 128", "head_dim = 1000000");
  EXPECT_THAT(ParseModel(wide, "m.toml").status().message(), HasSubstr("32 heads of 1000000"));
  const std::string grouped =
      Replaced(TextOf("deepseek-v3"), "heads = 128", "heads = 128\nkv_heads = 8");
  EXPECT_THAT(ParseModel(grouped, "m.toml").status().message(), HasSubstr("latent attention"));

  const std::string cluster = TextOf("h100-8x");
  const std::string missing = Replaced(cluster, "\"networks/dgx-h100\", ", "");
  const Result<graph::ClusterSpec> refused = ParseCluster(missing, "c.toml");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(refused.status().message(), HasSubstr("net.bandwidth_loss_per_doubling is missing"));
  const std::string unmarked =
      cluster +
      "[parameters]\np2p.base_ns = { value = 1, unit = \"ns\", source = \"test\", "
      "mark = \"guessed\" }\n";
  EXPECT_THAT(ParseCluster(unmarked, "c.toml").status().message(), HasSubstr("mark"));
}

}  // namespace
}  // namespace prism::launch
