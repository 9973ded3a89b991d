// Runs every folder of experiments/ that has a config.toml and compares its expected.json with the
// run's summary.json and the roles of its graph. Experiments that take minutes have a small.toml
// with expected_small.json, which is run instead.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/job_run.h"

namespace prism {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Experiments() {
  std::vector<std::string> names;
  for (const std::string& name : Entries(PRISM_EXPERIMENTS)) {
    if (fs::exists(fs::path(PRISM_EXPERIMENTS) / name / "config.toml")) {
      names.push_back(name);
    }
  }
  return names;
}

// "roles.0.ops" → summary["roles"][0]["ops"]; null where there is none.
nlohmann::json At(const nlohmann::json& value, const std::string& path) {
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return value.value(nlohmann::json::json_pointer(pointer), nlohmann::json());
}

class Experiment : public testing::TestWithParam<std::string> {};

TEST_P(Experiment, gives_what_is_expected) {
  const fs::path folder = fs::path(PRISM_EXPERIMENTS) / GetParam();
  const bool small = fs::exists(folder / "small.toml");
  const ScratchFolder scratch;
  const Finished run = RunCommand({PRISM_EMULATE, "--config",
                                   (folder / (small ? "small.toml" : "config.toml")).string(),
                                   "--out", scratch / "out", "--log-ranks", "none", "--quiet"});
  ASSERT_EQ(run.code, 0) << run.output;
  auto summary = nlohmann::json::parse(ReadText(scratch / "out/summary.json"));
  const Finished show = RunCommand(
      {PRISM_PROGRAM, "graph", "show", scratch / "out/graph.prism", "--roles", "--format", "json"});
  summary["roles"] = nlohmann::json::parse(show.output)["roles"];
  const auto expected = nlohmann::json::parse(
      ReadText((folder / (small ? "expected_small.json" : "expected.json")).string()));
  ASSERT_FALSE(expected.empty());
  for (const auto& [key, answer] : expected.items()) {
    const nlohmann::json got = At(summary, key);
    ASSERT_TRUE(got.is_number()) << key << " is " << got;
    const auto value = answer.at("value").get<double>();
    const double slack = std::abs(value) * answer.at("tolerance_pct").get<double>() / 100;
    EXPECT_NEAR(got.get<double>(), value, slack) << key << ": " << answer.at("source");
  }
}

INSTANTIATE_TEST_SUITE_P(Folders,
                         Experiment,
                         testing::ValuesIn(Experiments()),
                         [](const auto& folder) { return "experiment_" + folder.param; });

}  // namespace
}  // namespace prism
