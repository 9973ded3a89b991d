// Emulation is real: what sandbox ranks show is what the graph says, and what they do has effects.
// prism-emulate end to end, on a GPT of 16 ranks (tp 2, pp 4, dp 2).
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/file.h"
#include "replayer/engine/engine.h"
#include "tests/support/job_run.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kPrintedMs = 0.0501;  // the log has one digit after the point

constexpr const char* kModel =
    "name = \"small\"\ndescription = \"of a test\"\nsource = \"made up\"\nblock = \"gpt\"\n"
    "layers = 8\nhidden = 4096\nheads = 32\nffn = 16384\nvocab = 50257\nseq_len = 2048\n"
    "tied_embeddings = true\n[layout]\ntp = 2\npp = 4\nmicro_batch_size = 1\n"
    "global_batch_size = 8\nrecompute = \"none\"\n";

const std::vector<std::string> kWorkloadArgs = {"--layers",
                                                "8",
                                                "--hidden",
                                                "4096",
                                                "--heads",
                                                "32",
                                                "--kv-heads",
                                                "32",
                                                "--ffn",
                                                "16384",
                                                "--vocab",
                                                "50257",
                                                "--tied-embeddings",
                                                "on",
                                                "--seq-len",
                                                "2048",
                                                "--tp",
                                                "2",
                                                "--pp",
                                                "4",
                                                "--dp",
                                                "2",
                                                "--sequence-parallel",
                                                "on",
                                                "--zero",
                                                "1",
                                                "--global-batch-size",
                                                "8",
                                                "--iterations",
                                                "4"};

// Milliseconds of each iteration as a rank printed them.
std::vector<double> PrintedMs(const std::string& log_path) {
  std::vector<double> times;
  std::istringstream stream(ReadText(log_path));
  const std::string label = "elapsed time per iteration (ms): ";
  for (std::string line; std::getline(stream, line);) {
    if (const size_t at = line.find(label); at != std::string::npos) {
      times.push_back(std::stod(line.substr(at + label.size())));
    }
  }
  return times;
}

double JsonNumber(const std::string& text, const std::string& key) {
  const size_t at = text.find("\"" + key + "\": ");
  return at == std::string::npos ? -1.0 : std::strtod(text.c_str() + at + key.size() + 4, nullptr);
}

class Emulation : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    WriteText(*folder_ / "small.toml", kModel);
    base_ = RunCommand({PRISM_EMULATE, "--model", *folder_ / "small.toml", "--target-gpus", "16",
                        "--iterations", "4", "--sandbox-ranks", "0-15", "--max-error", "0", "--out",
                        *folder_ / "base"});
  }

  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override { ASSERT_EQ(base_.code, 0) << base_.output; }

  // Runs on the graph of the first run; `program` replaces the built-in workload.
  static Finished Run(const std::string& name,
                      const std::vector<std::string>& options,
                      const std::vector<std::string>& plants = {}) {
    std::vector<std::string> command = {PRISM_EMULATE,  "--graph", *folder_ / "base/graph.prism",
                                        "--iterations", "4",       "--out",
                                        *folder_ / name};
    command.insert(command.end(), options.begin(), options.end());
    if (!plants.empty()) {
      command.insert(command.end(), {"--", PRISM_PLANTED_WORKLOAD});
      command.insert(command.end(), plants.begin(), plants.end());
      command.insert(command.end(), kWorkloadArgs.begin(), kWorkloadArgs.end());
    }
    return RunCommand(command);
  }

  static std::vector<double> Printed(const std::string& run, int rank) {
    return PrintedMs(*folder_ / (run + "/logs/rank" + std::to_string(rank) + ".log"));
  }

  static double SummaryMs(const std::string& run) {
    return 1000 * JsonNumber(ReadText(*folder_ / (run + "/summary.json")), "iteration_time_s");
  }

  static std::unique_ptr<ScratchFolder> folder_;
  static Finished base_;
};

std::unique_ptr<ScratchFolder> Emulation::folder_;
Finished Emulation::base_;

TEST_F(Emulation, all_sixteen_ranks_print_the_time_of_the_summary) {
  for (int rank = 0; rank < 16; ++rank) {
    const std::vector<double> printed = Printed("base", rank);
    ASSERT_EQ(printed.size(), 4U) << rank;
    EXPECT_NEAR(printed.back(), SummaryMs("base"), kPrintedMs) << rank;
  }
  EXPECT_TRUE(Descendants().empty());
}

// The effect of a half-second sleep according to the graph: the engine with the gap inserted by
// hand.
double EngineMs(const graph::Graph& graph, Rank rank, int iteration, const std::string& marker) {
  const graph::Program& program = graph.role_of(rank).program;
  replayer::OpPosition position = int64_t{iteration} * program.size();
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == graph::OpKind::kMarker &&
        graph.strings[program.signature[op]] == marker) {
      position += op;
      break;
    }
  }
  replayer::ReplayOptions options;
  options.iterations = 4;
  Result<replayer::Engine> engine = replayer::Engine::Create(graph, options, {rank});
  engine->Issue(rank, position);
  engine->InsertHostGap(rank, 500'000'000);
  engine->Issue(rank, int64_t{4} * program.size());
  EXPECT_TRUE(engine->Run());
  return 1e-6 *
         static_cast<double>(engine->Summarise().iteration_ns[static_cast<size_t>(iteration)]);
}

// Everybody waits for the first forward of the first stage; only the zeroing of gradients, less
// than a millisecond, continues while its host sleeps.
TEST_F(Emulation, sleep_without_slack_delays_another_stage_by_its_length) {
  const Finished run = Run("sleep", {"--sandbox-ranks", "0,12"}, {"--plant", "sleep:0:2:0:0.5"});
  ASSERT_EQ(run.code, 0) << run.output;
  const Result<graph::Graph> graph = graph::ReadGraph(*folder_ / "base/graph.prism");
  ASSERT_TRUE(graph.ok());
  const std::vector<double> base = Printed("base", 12);
  const std::vector<double> late = Printed("sleep", 12);
  ASSERT_EQ(late.size(), 4U);
  EXPECT_NEAR(late[1], base[1], 2 * kPrintedMs);
  EXPECT_NEAR(late[2], base[2] + 500, 1);
  EXPECT_NEAR(late[2], EngineMs(*graph, Rank(0), 2, "micro-batch 0"), kPrintedMs);
}

TEST_F(Emulation, ranks_further_off_than_the_largest_error_end_with_code_4) {
  const Finished run =
      Run("gate", {"--sandbox-ranks", "0,12", "--max-error", "5%"}, {"--plant", "sleep:0:3:0:0.5"});
  EXPECT_EQ(run.code, 4) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("--max-error 5: an iteration takes"), Not(HasSubstr("e+"))));
  EXPECT_GT(SummaryMs("gate"), SummaryMs("base") + 499);
}

TEST_F(Emulation, sleep_in_the_middle_delays_another_stage_as_the_graph_says) {
  const Finished run = Run("middle", {"--sandbox-ranks", "4,12"}, {"--plant", "sleep:1:2:3:0.5"});
  ASSERT_EQ(run.code, 0) << run.output;
  const Result<graph::Graph> graph = graph::ReadGraph(*folder_ / "base/graph.prism");
  ASSERT_TRUE(graph.ok());
  const double expected = EngineMs(*graph, Rank(4), 2, "micro-batch 3");
  const std::vector<double> printed = Printed("middle", 12);
  ASSERT_EQ(printed.size(), 4U);
  EXPECT_NEAR(printed[2], expected, kPrintedMs);
  EXPECT_GT(printed[2], Printed("base", 12)[2] + 300);
}

TEST_F(Emulation, straggler_among_virtual_ranks_shows_in_the_log_of_a_sandbox_rank) {
  const Finished run = Run("straggler", {"--sandbox-ranks", "0", "--perturb", "straggler:15:2"});
  // Sandbox ranks that the user named are shown live, prefixed.
  EXPECT_THAT(run.output, testing::HasSubstr("[rank 0]  iteration"));
  ASSERT_EQ(run.code, 0) << run.output;
  const std::vector<double> printed = Printed("straggler", 0);
  ASSERT_EQ(printed.size(), 4U);
  EXPECT_NEAR(printed.back(), SummaryMs("straggler"), kPrintedMs);
  EXPECT_GT(printed.back(), 1.2 * Printed("base", 0).back());
}

TEST_F(Emulation, extra_collective_ends_the_run_with_both_sides) {
  const Finished run =
      Run("extra", {"--sandbox-ranks", "0,4"}, {"--plant", "extra-collective:4:3"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("rank 4 departs from the graph in iteration 3"),
                    HasSubstr("it does:  all_reduce (sum) of 64 bytes float32 on communicator tp "
                              "of ranks 4, 5 on stream"),
                    HasSubstr("graph:    rank 4 op"), HasSubstr("    at planted_workload"),
                    HasSubstr("the other members expect the same call: ranks 4, 5")));
  EXPECT_THAT(run.output, HasSubstr("then rank "));
  EXPECT_TRUE(Descendants().empty());
  EXPECT_EQ(Entries(*folder_ / "extra"), std::vector<std::string>{"FAILED"});
  EXPECT_FALSE(HasPartialOutput(*folder_ / "extra"));
}

struct RankRow {
  int stage = 0;
  int64_t allocated = 0;
  int64_t device = 0;
};

std::vector<RankRow> ReadRanks(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::vector<RankRow> rows;
  while (std::getline(file, line)) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) {
      cells.push_back(cell);
    }
    rows.push_back({std::stoi(cells.at(2)), std::stoll(cells.at(12)), std::stoll(cells.at(14))});
  }
  return rows;
}

// Earlier stages hold more micro-batches in flight.
TEST_F(Emulation, memory_falls_over_the_stages_and_the_worst_rank_is_named) {
  const std::vector<RankRow> rows = ReadRanks(*folder_ / "base/ranks.csv");
  ASSERT_EQ(rows.size(), 16U);
  std::map<int, int64_t> allocated;
  size_t worst = 0;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    allocated[rows[rank].stage] = rows[rank].allocated;
    worst = rows[rank].device > rows[worst].device ? rank : worst;
  }
  EXPECT_GT(allocated[0], allocated[1]);
  EXPECT_GT(allocated[1], allocated[2]);
  const std::string summary = ReadText(*folder_ / "base/summary.json");
  const std::string peak = summary.substr(summary.find("\"peak_memory\""));
  EXPECT_EQ(JsonNumber(peak, "rank"), static_cast<double>(worst));
  EXPECT_EQ(JsonNumber(peak, "device_bytes"), static_cast<double>(rows[worst].device));
}

}  // namespace
}  // namespace prism
