// prism bench starts the program that predicts published numbers.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/golden/command_runner.h"
#include "tests/support/scratch_folder.h"

namespace prism::testing {
namespace {

using ::testing::HasSubstr;

TEST(PublishedProgram, is_what_prism_bench_becomes) {
  const CommandFolder folder(PRISM_PROGRAMS);
  const std::string table = PRISM_SOURCE_DIR "/tests/experiments/published/made_up_runs.csv";
  for (const std::string& bench :
       {std::string("collectives --ranks 16"), "accuracy " + table + " --format json",
        "accuracy " + table + " --without nothing", std::string("accuracy nowhere.csv")}) {
    const CommandOutput started = folder.Run("prism bench " + bench);
    const CommandOutput direct = folder.Run("prism-published " + bench);
    EXPECT_EQ(started.exit_code, direct.exit_code) << bench;
    EXPECT_EQ(started.standard_output, direct.standard_output) << bench;
    EXPECT_EQ(started.standard_error, direct.standard_error) << bench;
  }
  EXPECT_EQ(folder.Run("prism bench collectives --ranks 16").exit_code, 0);
  EXPECT_EQ(folder.Run("prism bench accuracy nowhere.csv").exit_code, 3);
}

TEST(PublishedProgram, has_to_be_installed_beside_prism) {
  const ScratchFolder alone;
  std::filesystem::create_directory(alone / "bin");
  std::filesystem::copy(PRISM_PROGRAMS "/prism", alone / "bin/prism");
  const CommandFolder folder(alone / "bin");
  const CommandOutput output = folder.Run("prism bench accuracy runs.csv");
  EXPECT_EQ(output.exit_code, 5);
  EXPECT_THAT(output.standard_error, HasSubstr("bin/prism-published: No such file"));
  EXPECT_EQ(folder.Run("prism bench accuracy").exit_code, 5);
  EXPECT_EQ(folder.Run("prism bench accuracy runs.csv --ranks 2").exit_code, 2);
}

}  // namespace
}  // namespace prism::testing
