// GOAL schedules: what is read, what is refused and where.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/validate/validate.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"
#include "slicer/export/goal/goal_export.h"
#include "slicer/import/goal/goal_import.h"
#include "slicer/import/goal/goal_text.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<TaskGraph> ReadAll(const std::string& text) {
  std::vector<TaskGraph> ranks;
  GoalHandler handler;
  handler.begin = [](uint32_t) { return OkStatus(); };
  handler.rank = [&ranks](TaskGraph* tasks) {
    ranks.push_back(*tasks);
    return OkStatus();
  };
  const Status status = ReadGoalText(text, "x.goal", &handler);
  EXPECT_TRUE(status.ok()) << status.message();
  return ranks;
}

Result<ImportResult> Import(const std::string& text) {
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  return ImportGoalBytes(text, "x.goal", options);
}

std::string ErrorOf(const std::string& text) {
  const Result<ImportResult> result = Import(text);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kBadFile);
  return result.status().message();
}

TEST(GoalText, reads_tasks_edges_and_comments) {
  const std::vector<TaskGraph> ranks = ReadAll(
      "/* two\n ranks */ num_ranks 2\n"
      "rank 1 {\r\n"
      "a1: recv 8 b from 0 tag 3 cpu 2\n"
      "calc 5 // no label\n"
      "}\n"
      "rank 0 { a: calc 7\n b: send 8b to 1 tag 3\n b irequires a\n a requires b }");
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0].rank, Rank(1));
  ASSERT_EQ(ranks[0].tasks.size(), 2U);
  EXPECT_EQ(
      ranks[0].tasks[0],
      (Task{
          .kind = TaskKind::kReceive, .resource = 2, .comm = 3, .peer = 0, .line = 4, .value = 8}));
  EXPECT_THAT(ranks[1].edges, ElementsAre(TaskEdge{1, 0, true}, TaskEdge{0, 1, false}));
}

TEST(GoalText, says_line_and_expectation_of_what_is_wrong) {
  const std::string head = "num_ranks 2\nrank 0 {\n";
  const std::string rest = "\n}\nrank 1 {\n}\n";
  EXPECT_EQ(ErrorOf("rank 0 {}"), "x.goal:1: expected \"num_ranks\", found 'rank'");
  EXPECT_EQ(ErrorOf("num_ranks 0"), "x.goal:1: num_ranks is 0");
  EXPECT_EQ(ErrorOf("num_ranks 2000000"),
            "x.goal:1: expected a number of ranks of at most 1048576");
  EXPECT_EQ(ErrorOf(head + "calc" + rest),
            "x.goal:3: expected nanoseconds, found the end of the line");
  EXPECT_EQ(ErrorOf(head + "calc 9999999999999999" + rest),
            "x.goal:3: expected nanoseconds of at most 1000000000000000");
  EXPECT_EQ(ErrorOf(head + "send 4b to 2" + rest), "x.goal:3: expected a rank of at most 1");
  EXPECT_EQ(ErrorOf(head + "send 4b from 1" + rest), "x.goal:3: expected \"to\", found 'from'");
  EXPECT_EQ(ErrorOf(head + "calc 4 tag 1" + rest),
            "x.goal:3: expected \"tag\", \"cpu\", \"nic\" or the end of the line, found 'tag'");
  EXPECT_EQ(ErrorOf(head + "a: calc 4\na: calc 5" + rest), "x.goal:4: the label 'a' is used twice");
  EXPECT_EQ(ErrorOf(head + "a: calc 4\na requires b" + rest),
            "x.goal:4: no task above has the label 'b'");
  EXPECT_EQ(ErrorOf(head + "a: calc 4"), "x.goal:3: the file ends inside rank 0; is it cut off?");
  EXPECT_EQ(ErrorOf(head + "}\n"), "x.goal:4: rank 1 of 2 is missing");
  EXPECT_EQ(ErrorOf(head + "}\nrank 0 {\n}\n"), "x.goal:4: rank 0 appears a second time");
  EXPECT_THAT(ErrorOf(head + "recv 4b from -1" + rest), HasSubstr("any source (-1)"));
  EXPECT_EQ(ErrorOf(head + "/* calc 4"), "x.goal:3: the file ends inside rank 0; is it cut off?");
}

TEST(GoalImport, refuses_what_cannot_run) {
  // A circle inside a rank, a send without its receive, two ranks that wait for each other.
  EXPECT_EQ(ErrorOf("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}"),
            "x.goal:3: tasks of rank 0 wait for each other in a circle, this one too");
  EXPECT_THAT(ErrorOf("num_ranks 2\nrank 0 {\nsend 4b to 1\n}\nrank 1 {\n}"),
              HasSubstr("unpaired_send"));
  EXPECT_THAT(ErrorOf("num_ranks 2\nrank 0 {\na: recv 4b from 1\nb: send 4b to 1\nb requires a\n}\n"
                      "rank 1 {\na: recv 4b from 0\nb: send 4b to 0\nb requires a\n}"),
              HasSubstr("stall"));
  EXPECT_THAT(ErrorOf("num_ranks 2\nrank 0 {\nsend 4b to 1\n}\nrank 1 {\nrecv 5b from 0\n}"),
              HasSubstr("transfer_mismatch"));
}

TEST(GoalImport, ranks_with_equal_tasks_share_a_program) {
  const Result<ImportResult> result = Import(
      "num_ranks 3\n"
      "rank 0 {\nsend 4b to 1\nrecv 4b from 2\n}\n"
      "rank 1 {\nsend 4b to 2\nrecv 4b from 0\n}\n"
      "rank 2 {\nsend 4b to 0\nrecv 4b from 1\n}\n");
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.roles.size(), 1U);
  EXPECT_THAT(result->graph.ranks.peers(Rank(1)), ElementsAre(2U, 0U));
}

// Without its cpu a task would be charged beside others that share the cpu.
TEST(GoalExport, tasks_keep_their_cpu_and_nic) {
  const std::string text =
      "num_ranks 2\nrank 0 {\na: send 8b to 1 tag 0\nb: send 8b to 1 tag 1 cpu 3 nic 1\n"
      "c: calc 5 cpu 2\n}\nrank 1 {\na: recv 8b from 0 tag 0\nb: recv 8b from 0 tag 1\n}\n";
  const Result<ImportResult> result = Import(text);
  ASSERT_TRUE(result.ok()) << result.status().message();
  std::string written;
  const auto keep = [&written](std::string_view bytes) {
    written += bytes;
    return OkStatus();
  };
  ASSERT_TRUE(WriteGoal(result->graph, GoalForm::kText, keep).ok());
  EXPECT_THAT(written, HasSubstr("send 8b to 1 tag 0\n"));
  EXPECT_THAT(written, HasSubstr("send 8b to 1 tag 1 cpu 3 nic 1\n"));
  EXPECT_THAT(written, HasSubstr("calc 5 cpu 2\n"));
  EXPECT_THAT(written, HasSubstr("recv 8b from 0 tag 1\n"));
  std::string binary;
  ASSERT_TRUE(WriteGoal(result->graph, GoalForm::kBinary, [&binary](std::string_view bytes) {
                binary += bytes;
                return OkStatus();
              }).ok());
  const Result<ImportResult> again = Import(binary);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->graph.roles.front().program, result->graph.roles.front().program);
}

// An NVLink port has 450 GB/s: seven messages of 64 MiB take seven times as long as one.
TEST(GoalImport, messages_of_one_gpu_share_its_port) {
  std::string out = "num_ranks 8\nrank 0 {\n";
  std::string in = out;
  for (int rank = 1; rank < 8; ++rank) {
    out += fmt::format("send 67108864b to {} tag {}\n", rank, rank);
    in += fmt::format("recv 67108864b from {} tag {}\n", rank, rank);
  }
  for (int rank = 1; rank < 8; ++rank) {
    out += fmt::format("}}\nrank {} {{\nrecv 67108864b from 0 tag {}\n", rank, rank);
    in += fmt::format("}}\nrank {} {{\nsend 67108864b to 0 tag {}\n", rank, rank);
  }
  const std::string one =
      "num_ranks 8\nrank 0 {\nsend 67108864b to 1\n}\nrank 1 {\nrecv 67108864b from 0\n}\n"
      "rank 2 {\n}\nrank 3 {\n}\nrank 4 {\n}\nrank 5 {\n}\nrank 6 {\n}\nrank 7 {\n}\n";
  const auto seconds = [](const std::string& text) {
    ImportOptions options;
    options.cluster = prism::testing::TestCluster();
    options.cluster.gpus_per_node = 8;
    const Result<ImportResult> result = ImportGoalBytes(text, "x.goal", options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    replayer::ReplayOptions once;
    once.iterations = 1;
    return SecondsFromNs(replayer::Replay(result->graph, once)->steady_iteration_ns());
  };
  EXPECT_NEAR(seconds(out + "}\n") / seconds(one), 7, 0.1);
  EXPECT_NEAR(seconds(in + "}\n") / seconds(one), 7, 0.1);
}

// In file order rank 0's cpu would wait for rank 1, which waits for something that comes later.
TEST(GoalImport, a_cpu_that_would_stall_in_file_order_runs_its_calcs_side_by_side) {
  const Result<ImportResult> result = Import(
      "num_ranks 2\n"
      "rank 0 {\nr: recv 4b from 1\nc: calc 5\nc requires r\n"
      "d: calc 5\ns: send 4b to 1\ns requires d\n}\n"
      "rank 1 {\nr: recv 4b from 0\ns: send 4b to 0\ns requires r\n}\n");
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->graph.assumptions,
              ::testing::Contains(HasSubstr("they would stall in the order of the file: 2")));
}

std::string ManyTags(bool swapped) {
  std::string text = "num_ranks 2\nrank 0 {\n";
  for (int tag = 0; tag < 5000; ++tag) {
    text += "send 4b to 1 tag " + std::to_string(tag) + "\n";
  }
  text += "}\nrank 1 {\n";
  for (int tag = 0; tag < 5000; ++tag) {
    text += "recv 4b from 0 tag " + std::to_string(swapped ? tag ^ 1 : tag) + "\n";
  }
  return text + "}\n";
}

TEST(GoalImport, more_tags_than_communicators_are_left_out_only_where_order_tells_the_same) {
  const Result<ImportResult> result = Import(ManyTags(false));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.communicators.size(), 1U);
  EXPECT_THAT(result->graph.assumptions,
              ::testing::Contains(HasSubstr("because there are too many: 5,000")));
  EXPECT_THAT(ErrorOf(ManyTags(true)),
              HasSubstr("in another order of tags than that rank receives"));
}

TEST(GoalImport, messages_of_different_tags_may_cross) {
  const Result<ImportResult> result = Import(
      "num_ranks 2\nrank 0 {\nsend 4b to 1 tag 1\nsend 9b to 1 tag 2\n}\n"
      "rank 1 {\na: recv 9b from 0 tag 2\nb: recv 4b from 0 tag 1\nb requires a\n}\n");
  EXPECT_TRUE(result.ok()) << result.status().message();
}

}  // namespace
}  // namespace prism::slicer
