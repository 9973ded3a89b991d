// Every command that a README shows works: the lines of all ```sh blocks are run, in the order of
// the file, in a folder where the graphs and runs that they name exist. Complete runs, which record
// real ranks, are only dry-run; scripts that measure or build are only syntax-checked. Commands for
// which neither works are in a table with the test that covers them.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
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
    // Any number of processes gives the same bytes; here one is run.
    {"mpirun -n 4 prism search", "search_runs_test"},
    // Collecting files, and the dry run, work without a GPU; the rest needs one.
    {"experiments/gpu/collect.sh", "gpu_experiments_test"},
    {"experiments/gpu/run_all.sh", "gpu_experiments_test"},
};

struct ReadmeCommand {
  std::string where;  // "launch/README.md:12"
  std::string text;
};

bool Has(const std::string& command, const char* text) {
  return command.find(text) != std::string::npos;
}

// A run that records real ranks needs libtorch; --dry-run, --help and --print-config do not.
bool IsWholeRun(const std::string& command) {
  const bool is_run = command.starts_with("prism-emulate") || command.starts_with("prism run");
  return is_run && !Has(command, "--dry-run") && !Has(command, "--print-config") &&
         !Has(command, "--help") && !Has(command, "--version");
}

// What is run instead of a command that takes long.
std::string Quick(const std::string& command) {
  const std::string python = ".venv/bin/python ";
  if (command.starts_with(python)) {
    return "python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' " +
           command.substr(python.size());
  }
  if (command.starts_with("./") && command.ends_with(".sh")) {
    return "bash -n " + command;
  }
  if (!IsWholeRun(command)) {
    return command;
  }
  const size_t program = std::min(command.find(" -- "), command.size());
  return command.substr(0, program) + " --dry-run" + command.substr(program);
}

// Whether the program that a run would start may be missing here.
bool NeedsEnvironment(const std::string& command) {
  const size_t config = command.find("--config ");
  const std::string file = config == std::string::npos ? "" : command.substr(config + 9);
  const std::string path = file.substr(0, file.find(' '));
  return Has(command, "-- .venv/") ||
         (!path.empty() && Has(ReadWhole((fs::path(PRISM_SOURCE_DIR) / path).string()), ".venv/"));
}

std::string CoveredBy(const std::string& command) {
  for (const Covered& covered : kCovered) {
    if (command.starts_with(covered.command)) {
      return covered.by;
    }
  }
  return {};
}

// A command as a reader would type it: without the comment after it and the build folder.
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
  const fs::path root(PRISM_SOURCE_DIR);
  std::vector<fs::path> readmes = {root / "README.md"};
  for (const char* folder :
       {"graph", "slicer", "replayer", "shim", "launch", "experiments", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().filename() == "README.md") {
        readmes.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(readmes);
  std::vector<ReadmeCommand> commands;
  for (const fs::path& readme : readmes) {
    const std::vector<ReadmeCommand> found =
        CommandsOf(readme, readme.lexically_relative(root).string());
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

TEST(Readme, commands_of_all_readmes_work) {
  const CommandFolder folder(PRISM_GOLDEN_PATH);
  const std::string root = PRISM_SOURCE_DIR;
  const bool has_environment = fs::exists(root + "/.venv/bin/python");
  ASSERT_EQ(
      folder.Run("ln -s " + root + "/experiments " + root + "/.venv " + root + "/*.sh .").exit_code,
      0);
  int ran = 0;
  for (const ReadmeCommand& command : AllCommands()) {
    if (!CoveredBy(command.text).empty() || (NeedsEnvironment(command.text) && !has_environment)) {
      continue;
    }
    MakeInputs(folder, command.text);
    const CommandOutput output = folder.Run(Quick(command.text));
    EXPECT_EQ(output.exit_code, 0) << command.where << ": " << Quick(command.text) << "\n"
                                   << output.standard_error;
    ++ran;
  }
  EXPECT_GT(ran, 0) << "no README shows a command that could be run: is the search broken?";
}

// Cells of a table's row, trimmed; none if the line is not a row.
std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  if (!line.starts_with("| ")) {
    return cells;
  }
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    const size_t first = cell.find_first_not_of(' ');
    const size_t last = cell.find_last_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

// How a row of README.md's table of errors begins, and how the same row of the accuracy page does.
constexpr std::pair<const char*, const char*> kErrorRows[] = {
    {"six Megatron A100 tables", "six Megatron A100 tables"},
    {"the same with ZeRO-3", "the same with ZeRO-3"},
    {"FSDP (MPT)", "mpt"},
    {"dgxc-benchmarking, dense", "dgxc, dense"},
    {"dgxc-benchmarking, the rest", "dgxc, the rest"},
    {"MLPerf, dense", "mlperf, dense"},
    {"MLPerf, the rest", "mlperf, the rest"},
    {"Megatron Bridge", "megatron_bridge_perf"},
    {"nanotron", "nanotron_ultrascale"},
    {"vtrain_single", "vtrain_single"},
};

std::string PageNameOf(const std::string& name) {
  for (const auto& [begin, page] : kErrorRows) {
    if (name.starts_with(begin)) {
      return page;
    }
  }
  return "none: " + name;
}

// Rows of README.md's table of errors are those of experiments/accuracy/README.md, under other
// names: count, mean and median.
TEST(Readme, errors_are_those_of_the_accuracy_page) {
  const std::string root = PRISM_SOURCE_DIR;
  std::vector<std::vector<std::string>> known;
  std::istringstream page(ReadWhole(root + "/experiments/accuracy/README.md"));
  for (std::string line; std::getline(page, line);) {
    if (const auto cells = CellsOf(line); cells.size() == 8) {
      known.push_back(cells);
    }
  }
  int rows = 0;
  std::istringstream readme(ReadWhole(root + "/README.md"));
  for (std::string line; std::getline(readme, line);) {
    const auto cells = CellsOf(line);
    if (cells.size() != 4 || cells[1].find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    ++rows;
    const std::string name = PageNameOf(cells[0]);
    EXPECT_TRUE(std::ranges::any_of(known, [&](const std::vector<std::string>& row) {
      return row[0].starts_with(name) &&
             std::equal(cells.begin() + 1, cells.end(), row.begin() + 1);
    })) << line;
  }
  EXPECT_GT(rows, 5);
}

// The tests that cover the expensive commands exist, and some README shows each command.
TEST(Readme, covering_tests_exist) {
  std::string declared;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(PRISM_SOURCE_DIR) / "tests")) {
    if (entry.path().filename() == "CMakeLists.txt") {
      declared += ReadWhole(entry.path().string());
    }
  }
  const std::vector<ReadmeCommand> commands = AllCommands();
  for (const Covered& covered : kCovered) {
    EXPECT_TRUE(std::ranges::any_of(
        commands,
        [&](const ReadmeCommand& command) { return command.text.starts_with(covered.command); }))
        << "no README shows " << covered.command;
  }
  for (const ReadmeCommand& command : commands) {
    const std::string by = CoveredBy(command.text);
    if (!by.empty()) {
      EXPECT_NE(declared.find("prism_test(" + by), std::string::npos)
          << command.where << ": " << command.text << " is said to be covered by " << by;
    }
  }
}

}  // namespace
}  // namespace prism::testing
