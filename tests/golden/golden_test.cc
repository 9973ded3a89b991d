// Golden cases: commands with their expected exit code and output, one file per topic in
// tests/golden/cases. The commands of a file run one after the other in one fresh folder:
//
//   # What this file is about.
//   $ prism serch
//   exit 2
//   stderr| prism: unknown verb 'serch'; ...
//
// Commands whose name begins with "make_graph" come from make_graph.cc. With PRISM_GOLDEN_UPDATE=1
// in the environment the files are rewritten with what the commands do now; review that change like
// code.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/replay.h"
#include "tests/golden/command_runner.h"

namespace prism::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> CaseFiles() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(PRISM_GOLDEN_CASES)) {
    if (entry.path().extension() == ".txt") {
      files.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

// Text with a prefix before each line. A last line without a newline is marked.
std::string Prefixed(const std::string& prefix, const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    result += line.empty() ? prefix + "\n" : prefix + " " + line + "\n";
  }
  return text.empty() || text.back() == '\n' ? result : result + prefix + "(no end of line)\n";
}

std::string Rendered(const std::string& command, const CommandOutput& output) {
  return "$ " + command + "\nexit " + std::to_string(output.exit_code) + "\n" +
         Prefixed("stdout|", output.standard_output) + Prefixed("stderr|", output.standard_error);
}

// The file as it would be if every expectation were met, with comments and commands unchanged.
std::string Replay(const std::string& text) {
  const CommandFolder folder(PRISM_GOLDEN_PATH);
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("$ ")) {
      const std::string command = line.substr(2);
      result += Rendered(command, folder.Run(command));
    } else if (line.empty() || line.starts_with("#")) {
      result += line + "\n";
    }
  }
  return result;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, commands_do_what_the_case_says) {
  const std::string path = std::string(PRISM_GOLDEN_CASES) + "/" + GetParam() + ".txt";
  const std::string expected = ReadWhole(path);
  const std::string actual = Replay(expected);
  if (std::getenv("PRISM_GOLDEN_UPDATE") != nullptr) {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  EXPECT_EQ(actual, expected) << path << "; PRISM_GOLDEN_UPDATE=1 rewrites it";
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, ::testing::ValuesIn(CaseFiles()), [](const auto& entry) {
  return entry.param;
});

}  // namespace
}  // namespace prism::testing
