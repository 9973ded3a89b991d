// Replays the corpus of the fuzz target of the launcher's readers: every input found so far.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "launch/inputs/host_costs.h"
#include "launch/inputs/perturbation.h"
#include "launch/inputs/presets.h"
#include "tests/fuzz/config_input.h"
#include "tests/fuzz/corpus.h"

namespace prism::testing {
namespace {

TEST(ConfigFuzzCorpus, every_input_is_handled) {
  const std::vector<std::string> paths = CorpusFiles(PRISM_CONFIG_CORPUS);
  ASSERT_GE(paths.size(), 20U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const Result<std::string> input = ReadFile(path);
    ASSERT_TRUE(input.ok()) << input.status().message();
    TryConfig(*input);
  }
}

TEST(ConfigFuzzCorpus, every_preset_is_read) {
  for (const launch::EmbeddedPreset& preset : launch::EmbeddedPresets()) {
    SCOPED_TRACE(preset.name);
    if (preset.kind == launch::PresetKind::kProfile) {
      continue;  // not a cluster by itself; read with those that build on it
    }
    Status status;
    if (preset.kind == launch::PresetKind::kModel) {
      status = launch::ParseModel(preset.text, "preset").status();
    } else if (preset.kind == launch::PresetKind::kHost) {
      status = launch::ParseHostCosts(preset.text, "preset").status();
    } else {
      status = launch::ParseCluster(preset.text, "preset").status();
    }
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(ConfigFuzzCorpus, model_too_wide_for_counts_is_refused) {
  const Result<std::string> input = ReadFile(std::string(PRISM_CONFIG_CORPUS) + "/model_too_wide");
  ASSERT_TRUE(input.ok());
  const std::string text = input->substr(input->find('\n') + 1);
  EXPECT_EQ(launch::ParseModel(text, "wide").status().code(), StatusCode::kBadFile);
}

TEST(ConfigFuzzCorpus, rank_named_twice_is_perturbed_once) {
  graph::JobSpec job;
  job.parallel.dp = 8;
  const auto perturbation = launch::ParsePerturbation({"straggler:0-3+2+1:2", ""}, job, {}, {});
  ASSERT_TRUE(perturbation.ok()) << perturbation.status().message();
  EXPECT_EQ(perturbation->ranks, (std::vector<Rank>{Rank(0), Rank(1), Rank(2), Rank(3)}));
}

}  // namespace
}  // namespace prism::testing
