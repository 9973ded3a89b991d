// Runs every folder of experiments/ that has a config.toml and holds its expected.json against the
// run's summary.json.

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

// "graph.roles" → summary["graph"]["roles"]; null where there is none.
nlohmann::json At(nlohmann::json value, const std::string& path) {
  size_t begin = 0;
  while (begin <= path.size() && value.is_object()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const auto found = value.find(path.substr(begin, end - begin));
    value = found == value.end() ? nlohmann::json() : nlohmann::json(*found);
    begin = end + 1;
  }
  return value;
}

class Experiment : public testing::TestWithParam<std::string> {};

TEST_P(Experiment, gives_what_is_expected) {
  const fs::path folder = fs::path(PRISM_EXPERIMENTS) / GetParam();
  const ScratchFolder scratch;
  const Finished run = RunCommand({PRISM_EMULATE, "--config", (folder / "config.toml").string(),
                                   "--out", scratch / "out", "--quiet"});
  ASSERT_EQ(run.code, 0) << run.output;
  const auto summary = nlohmann::json::parse(ReadText(scratch / "out/summary.json"));
  const auto expected = nlohmann::json::parse(ReadText((folder / "expected.json").string()));
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
