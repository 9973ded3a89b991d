// What a program does beside its steady iteration: odd iterations, and programs that have none.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/programs/user_program.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Every kind is recorded on all recorded ranks, matched and timed; the steady iteration stays what
// it is without them.
TEST_F(UserProgram, odd_iterations_are_timed_and_count_in_the_mean) {
  const auto summary_of = [&](const std::string& how, const std::vector<std::string>& more) {
    std::vector<std::string> command = {PRISM_EMULATE, "--target-gpus", "4",
                                        "--force",     "--out",         folder_ / "out"};
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(), {"--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/odd_steps.py", how});
    const Finished run = RunCommand(command);
    EXPECT_EQ(run.code, 0) << run.output;
    return nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  };
  const auto plain = summary_of("plain", {});
  EXPECT_TRUE(plain["odd_iterations"].empty());
  EXPECT_EQ(plain["mean_iteration_time_s"], plain["iteration_time_s"]);
  const auto odd = summary_of("odd", {"--strict"});
  EXPECT_EQ(odd["iteration_time_s"], plain["iteration_time_s"]);
  const double steady = odd["iteration_time_s"].get<double>();
  std::map<std::string, nlohmann::json> kinds;
  for (const auto& kind : odd["odd_iterations"]) {
    kinds[kind["kind"].get<std::string>()] = kind;
    EXPECT_GT(kind["seconds"].get<double>(), steady) << kind;
  }
  EXPECT_EQ(kinds["checkpoint"]["every"], 10);
  EXPECT_EQ(kinds["evaluation"]["every"], 7);
  EXPECT_EQ(kinds.count("logging"), 1U);
  EXPECT_GT(odd["mean_iteration_time_s"].get<double>(), steady);
}

// Its own output shows the time of the target, too.
TEST_F(UserProgram, without_iterations_is_timed_once_and_by_phases) {
  const auto run = [&](const std::string& how) {
    return RunCommand({PRISM_EMULATE, "--target-gpus", "16", "--force", "--out", folder_ / "out",
                       "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/no_training.py", how});
  };
  const Finished even = run("even");
  ASSERT_EQ(even.code, 0) << even.output;
  EXPECT_THAT(even.output, HasSubstr("the program has no iterations"));
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  std::vector<std::string> names;
  double sum = 0;
  std::map<std::string, double> seconds;
  for (const auto& phase : summary["phases"]) {
    names.push_back(phase["name"].get<std::string>());
    seconds[names.back()] = phase["seconds"].get<double>();
    sum += seconds[names.back()];
  }
  EXPECT_THAT(names, ElementsAre("start", "reduce", "between", "pause", "end"));
  EXPECT_EQ(summary["phases"][1]["count"], 3);
  EXPECT_NEAR(seconds["pause"], 2, 1e-3);
  EXPECT_NEAR(sum, summary["iteration_time_s"].get<double>(), 1e-6);
  const std::string log = Log();
  const size_t printed = log.find("reduced in ");
  ASSERT_NE(printed, std::string::npos) << log;
  EXPECT_NEAR(std::stod(log.substr(printed + 11)), seconds["reduce"] + seconds["between"], 1e-4);
  const Finished uneven = run("uneven");
  EXPECT_EQ(uneven.code, 1) << uneven.output;
  EXPECT_THAT(uneven.output, AllOf(HasSubstr("2,097,152 float32"), HasSubstr("1,048,576 float32"),
                                   HasSubstr("no_training.py")));
}

}  // namespace
}  // namespace prism
