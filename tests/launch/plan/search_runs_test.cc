// prism search as a program: the published plans of experiments/11_plans, and the same bytes for
// any number of processes.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/job_run.h"

namespace prism {
namespace {

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

TEST(SearchRuns, published_plans_come_out_as_published) {
  const std::string folder = std::string(PRISM_SOURCE_DIR) + "/experiments/11_plans/";
  std::vector<std::string> command = {PRISM_PROGRAM, "search", "--format", "json"};
  const std::vector<std::string> arguments = WordsOf(ReadWhole(folder + "search.txt"));
  ASSERT_FALSE(arguments.empty());
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Finished run = RunCommand(command);
  ASSERT_EQ(run.code, 0) << run.output;
  const auto result = nlohmann::json::parse(run.output);
  const auto expected = nlohmann::json::parse(ReadWhole(folder + "expected.json"));
  ASSERT_FALSE(expected.empty());
  for (const auto& [key, answer] : expected.items()) {
    std::string pointer = "/" + key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const auto got = result.at(nlohmann::json::json_pointer(pointer)).get<double>();
    const auto value = answer.at("value").get<double>();
    const double slack = std::abs(value) * answer.at("tolerance_pct").get<double>() / 100;
    EXPECT_NEAR(got, value, slack + 1e-9) << key << ": " << answer.at("source");
  }
}

TEST(SearchRuns, processes_do_not_change_a_byte) {
  const std::string mpirun = PRISM_MPIRUN;
  if (mpirun.empty()) {
    GTEST_SKIP() << "no mpirun";
  }
  const std::vector<std::string> search = {PRISM_PROGRAM,
                                           "search",
                                           "--model",
                                           "gpt3-1.3b",
                                           "--cluster",
                                           "a100-40-8x",
                                           "--gpus",
                                           "8,16",
                                           "--tokens",
                                           "26e9",
                                           "--cp",
                                           "1",
                                           "--vpp",
                                           "1",
                                           "--global-batch-size",
                                           "32",
                                           "--micro-batch-size",
                                           "1,4",
                                           "--offload",
                                           "any",
                                           "--threads",
                                           "1",
                                           "--format",
                                           "json"};
  const Finished alone = RunCommand(search);
  ASSERT_EQ(alone.code, 0) << alone.output;
  for (const char* processes : {"2", "4"}) {
    std::vector<std::string> command = {mpirun, "-n", processes};
    command.insert(command.end(), search.begin(), search.end());
    const Finished run = RunCommand(command);
    ASSERT_EQ(run.code, 0) << run.output;
    EXPECT_EQ(run.output, alone.output) << processes;
  }
}

}  // namespace
}  // namespace prism
