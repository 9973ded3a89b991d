// Users' programs whose files are not there: --stand-in, and its hint.
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/programs/user_program.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(UserProgram, whose_files_are_not_there_is_told_that_they_may_be_stood_for) {
  const Finished run = RunScript("absent_files.py", {"--target-gpus", "2"});
  ExpectFailure(run, "with --stand-in its shapes and sizes stand for it");
  EXPECT_THAT(run.output, HasSubstr("No such file or directory: '/absent/train.bin'"));
}

TEST_F(UserProgram, resumes_from_files_that_are_stood_for) {
  const Finished run = RunScript("absent_files.py", {"--target-gpus", "2", "--stand-in"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(Log(), AllOf(HasSubstr("1073741824 and 7 tokens, the last 0 and 0\n"),
                           HasSubstr("epoch 3, weights kept\n"), HasSubstr("step 3, best 0.0")));
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  std::set<std::string> files;
  for (const auto& assumption : summary["assumptions"]) {
    const auto line = assumption.get<std::string>();
    if (line.starts_with("--stand-in, ")) {
      files.insert(line.substr(12, line.find(": ") - 12));
    }
  }
  EXPECT_THAT(files, ElementsAre("/absent/few.bin", "/absent/last.pt", "/absent/sharded",
                                 "/absent/train.bin"));
}

}  // namespace
}  // namespace prism
