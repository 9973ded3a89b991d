// prism check on programs with faults as people report them (checked.py).
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using Json = nlohmann::json;

struct Checked {
  int code = 0;
  Json report;
};

Checked Check(const std::string& fault) {
  const std::string program = std::string(PRISM_PROGRAM_DIR) + "/checked.py";
  const Finished run = RunCommand({PRISM_PROGRAM, "check", "--gpus", "4", "--format", "json", "--",
                                   PRISM_PYTHON, program, fault});
  // Progress comes before it, the message of a fault behind it.
  const size_t begin = std::min(run.output.find("{\n"), run.output.size());
  const size_t end = run.output.rfind("\n}");
  Checked checked = {.code = run.code,
                     .report = Json::parse(run.output.substr(begin, end + 2 - begin), nullptr,
                                           /*allow_exceptions=*/false)};
  EXPECT_FALSE(checked.report.is_discarded()) << run.output;
  return checked;
}

// The number of the line of checked.py that contains the text, in order.
int LineWith(const std::string& text, int occurrence = 1) {
  std::ifstream file(std::string(PRISM_PROGRAM_DIR) + "/checked.py");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find(text) != std::string::npos && --occurrence == 0) {
      return number;
    }
  }
  return 0;
}

void ExpectFault(const Checked& checked, const std::string& kind, const std::vector<int>& lines) {
  EXPECT_EQ(checked.code, 1);
  ASSERT_EQ(checked.report["verdict"], "fault") << checked.report.dump(1);
  const Json& fault = checked.report["faults"][0];
  EXPECT_EQ(fault["kind"], kind) << fault.dump(1);
  EXPECT_EQ(checked.report["sentence"], fault["sentence"]);
  for (const int line : lines) {
    EXPECT_TRUE(
        std::ranges::any_of(fault["calls"], [&](const Json& call) { return call["line"] == line; }))
        << "line " << line << " in " << fault.dump(1);
  }
}

TEST(CheckedPrograms, right_ones_have_no_fault) {
  for (const char* right : {"none", "one"}) {
    const Checked checked = Check(right);
    EXPECT_EQ(checked.code, 0) << checked.report.dump(1);
    EXPECT_EQ(checked.report["verdict"], "ok");
    EXPECT_TRUE(checked.report["warnings"].empty()) << checked.report.dump(1);
    EXPECT_EQ(checked.report["sentence"], "no fault on 4 of 4 ranks");
    EXPECT_EQ(checked.report["checked_until"], "exit");
    EXPECT_TRUE(checked.report["assumed"].empty());
  }
}

TEST(CheckedPrograms, a_handle_that_is_never_waited_for_is_a_warning) {
  const Checked checked = Check("dropped");
  EXPECT_EQ(checked.code, 0) << checked.report.dump(1);
  ASSERT_EQ(checked.report["warnings"].size(), 1U) << checked.report.dump(1);
  const std::string warning = checked.report["warnings"][0].get<std::string>();
  EXPECT_NE(warning.find("all_reduce of 24 float32"), std::string::npos) << warning;
}

TEST(CheckedPrograms, a_save_of_one_rank_alone_ends_in_a_rank_that_has_left) {
  const Checked checked = Check("checkpoint");
  ExpectFault(checked, "left_early", {LineWith("dist.barrier()"), LineWith("dist.barrier()", 3)});
  EXPECT_EQ(checked.report["faults"][0]["waiting"], Json::array({0}));
}

TEST(CheckedPrograms, groups_that_only_members_make_differ) {
  ExpectFault(Check("own_group"), "group", {LineWith("group = dist.new_group([first")});
}

TEST(CheckedPrograms, two_groups_in_another_order_are_a_circle) {
  const Checked checked = Check("order");
  ExpectFault(checked, "cycle", {LineWith("dist.all_reduce(value")});
  EXPECT_EQ(checked.report["faults"][0]["waiting"].size(), 4U);
}

TEST(CheckedPrograms, another_size_is_named) {
  ExpectFault(Check("twice"), "size", {LineWith("dist.all_reduce(value")});
}

TEST(CheckedPrograms, ranks_with_fewer_batches_leave) {
  const Checked checked = Check("uneven");
  EXPECT_EQ(checked.code, 1);
  ASSERT_EQ(checked.report["verdict"], "fault");
  EXPECT_FALSE(checked.report["faults"][0]["waiting"].empty());
}

TEST(CheckedPrograms, a_save_longer_than_the_time_out_says_both) {
  const Checked checked = Check("save");
  ExpectFault(checked, "timeout", {LineWith("dist.barrier()")});
  const std::string sentence = checked.report["sentence"];
  EXPECT_NE(sentence.find("660 s"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("600 s"), std::string::npos) << sentence;
}

}  // namespace
}  // namespace prism
