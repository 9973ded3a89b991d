// Every command that a README shows works: the lines of all ```sh blocks are run, in the order of
// the file, in a folder where the graphs and runs that they name exist. Expensive commands stand in
// a table with the test that covers them.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/golden/command_runner.h"

namespace prism::testing {
namespace {

namespace fs = std::filesystem;

struct Covered {
  const char* command;  // beginning
  const char* by;       // a test that ctest knows
};

constexpr Covered kCovered[] = {
    {"git clone", "style_test"},  // no network in tests; the tree that style_test reads is one
    {"cd ", "style_test"},        // goes with it
    {"./run.sh", "truth_test"},   // builds, then runs what the tests of whole runs run
    {"./test.sh", "style_test"},  // builds, then runs ctest: this
    {"mpirun", "truth_test"},     // whole runs on the virtual device
    {"cmake ", "style_test"},     // the build that made this test
    {"ctest ", "style_test"},     // likewise
    // The dry run; without it a GPU is needed.
    {"experiments/gpu/run_all.sh", "gpu_experiments_test"},
};

struct ReadmeCommand {
  std::string where;  // "launch/README.md:12"
  std::string text;
};

// A run that records real ranks needs libtorch; --dry-run, --help and --print-config do not.
bool IsWholeRun(const std::string& command) {
  const auto has = [&](const char* text) { return command.find(text) != std::string::npos; };
  return command.starts_with("prism-emulate") && !has("--dry-run") && !has("--print-config") &&
         !has("--help") && !has("--version");
}

std::string CoveredBy(const std::string& command) {
  if (IsWholeRun(command)) {
    return "truth_test";
  }
  for (const Covered& covered : kCovered) {
    if (command.starts_with(covered.command)) {
      return covered.by;
    }
  }
  return {};
}

// A command as a reader would type it: without the comment behind it and the folder of the build.
std::string Typed(std::string command) {
  if (const size_t comment = command.find("  #"); comment != std::string::npos) {
    command.resize(comment);
  }
  while (!command.empty() && std::isspace(static_cast<unsigned char>(command.back())) != 0) {
    command.pop_back();
  }
  const std::string folder = "build/bin/";
  if (command.starts_with(folder)) {
    command.erase(0, folder.size());
  }
  return command;
}

std::vector<ReadmeCommand> CommandsOf(const fs::path& readme, const std::string& name) {
  std::vector<ReadmeCommand> commands;
  std::istringstream lines(ReadWhole(readme.string()));
  bool inside = false;
  std::string joined;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside && (line == "```sh" || line == "```bash");
      continue;
    }
    if (!inside || line.empty() || line.starts_with("#")) {
      continue;
    }
    if (line.ends_with("\\")) {
      joined += line.substr(0, line.size() - 1);
      continue;
    }
    commands.push_back({name + ":" + std::to_string(number), Typed(joined + line)});
    joined.clear();
  }
  return commands;
}

std::vector<ReadmeCommand> AllCommands() {
  std::vector<ReadmeCommand> commands;
  const fs::path root(PRISM_SOURCE_DIR);
  std::vector<fs::path> readmes;
  for (const char* folder :
       {"", "graph", "slicer", "replayer", "shim", "launch", "experiments", "tests"}) {
    readmes.push_back(fs::path(folder) / "README.md");
  }
  for (const fs::path& readme : readmes) {
    const std::vector<ReadmeCommand> found = CommandsOf(root / readme, readme.string());
    commands.insert(commands.end(), found.begin(), found.end());
  }
  return commands;
}

// Makes what the command reads: graphs, and run folders for `prism diff` and `prism report`.
void MakeInputs(const CommandFolder& folder, const std::string& command) {
  std::istringstream words(command);
  const bool reads_runs = command.starts_with("prism diff") || command.starts_with("prism report");
  for (std::string word; words >> word;) {
    const bool is_graph = word.ends_with(".prism");
    const bool is_run = reads_runs && word.find('/') != std::string::npos && !is_graph;
    if (is_graph || is_run) {
      const std::string run = is_graph ? fs::path(word).parent_path().string() : word;
      const std::string graph = is_graph ? word : word + "/graph.prism";
      const std::string made =
          "mkdir -p ./" + run + " && { [ -e " + graph + " ] || make_graph large " + graph + "; }" +
          (is_run ? " && prism replay " + graph + " --format json > " + run +
                        "/summary.json && prism-emulate --print-config > " + run + "/config.toml"
                  : "");
      const CommandOutput output = folder.Run(made);
      ASSERT_EQ(output.exit_code, 0) << made << "\n" << output.standard_error;
    }
  }
}

TEST(Readme, commands_work) {
  const CommandFolder folder(PRISM_GOLDEN_PATH);
  int ran = 0;
  for (const ReadmeCommand& command : AllCommands()) {
    if (!CoveredBy(command.text).empty()) {
      continue;
    }
    MakeInputs(folder, command.text);
    const CommandOutput output = folder.Run(command.text);
    EXPECT_EQ(output.exit_code, 0) << command.where << ": " << command.text << "\n"
                                   << output.standard_error;
    ++ran;
  }
  EXPECT_GT(ran, 0) << "no README shows a command that could be run: is the search broken?";
}

// The tests that stand for the expensive commands exist.
TEST(Readme, covering_tests_exist) {
  std::string declared;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(PRISM_SOURCE_DIR) / "tests")) {
    if (entry.path().filename() == "CMakeLists.txt") {
      declared += ReadWhole(entry.path().string());
    }
  }
  for (const ReadmeCommand& command : AllCommands()) {
    const std::string by = CoveredBy(command.text);
    if (!by.empty()) {
      EXPECT_NE(declared.find("prism_test(" + by), std::string::npos)
          << command.where << ": " << command.text << " is said to be covered by " << by;
    }
  }
}

}  // namespace
}  // namespace prism::testing
