// Spellings of profiles that are legal and rare: each gives what the usual one does, or says why
// not.
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/kineto_profile.h"

namespace prism::slicer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Two kernels of 200 and 300 us in a step of 1,000.
std::string Usual() {
  Profile profile(0, 1);
  profile.Step(0, 1000).Call("cudaLaunchKernel", 0, 5).Task("gemm", 7, 10, 200);
  profile.Call("cudaLaunchKernel", 20, 5).Task("relu", 7, 210, 300);
  return profile.Json();
}

std::string Replaced(const std::string& text, const char* pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

graph::Graph GraphOf(const std::string& profile) {
  Result<ImportResult> result = Import({profile});
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(result->graph) : graph::Graph();
}

int64_t ComputeNs(const std::string& profile) {
  const Result<replayer::ReplayResult> replay = replayer::Replay(GraphOf(profile), {});
  return replay.ok() ? replay->ranks.front().compute_ns : -1;
}

// Ranks 1 and 3 of 8, of a group that only its list describes, or only the collective.
TEST(KinetoSpelling, ranks_of_groups_may_be_lists_or_text) {
  const auto reduce = [](const std::string& ranks, const std::string& listed) {
    return Profile(1, 8)
        .Step(0, 200)
        .Call("cudaLaunchKernel", 10, 5)
        .Task("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 7, 20, 100,
              ", \"Collective name\": \"allreduce\", \"In msg nelems\": 8, \"dtype\": \"Float\", "
              "\"Group size\": 2, \"Process Group Name\": \"5\"" +
                  ranks)
        .Groups(listed)
        .Json();
  };
  const auto of_event = [&](const std::string& ranks) {
    return reduce(", \"Process Group Ranks\": " + ranks, "[]");
  };
  const auto of_list = [&](const std::string& ranks) {
    return reduce("", "[{\"pg_name\": \"5\", " + ranks + "}]");
  };
  for (const std::string& json :
       {of_event("[1, 3]"), of_event("\"[1, 3]\""), of_event("[\"1\", \"3\"]"),
        of_list("\"pg_size\": 2, \"ranks\": [1, 3]"),
        of_list("\"group_size\": 2, \"ranks\": \"[1, 3]\""),
        of_list("\"ranks\": [\"1\", \"3\"]")}) {
    const graph::Graph graph = GraphOf(json);
    std::vector<std::vector<uint32_t>> groups;
    for (uint32_t comm = 0; comm < graph.communicators.size(); ++comm) {
      const auto members = graph.communicators.members_of(CommId(comm));
      groups.emplace_back(members.begin(), members.end());
    }
    EXPECT_THAT(groups, Contains(std::vector<uint32_t>{1, 3})) << json;
  }
}

// PyTorch leaves the ranks of a group out where it has all, and of no other.
TEST(KinetoSpelling, a_group_without_ranks_is_the_whole_job) {
  const auto listed = [](int size) {
    return Profile(1, 8)
        .Step(0, 200)
        .Call("cudaLaunchKernel", 10, 5)
        .Task("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 7, 20, 100,
              ", \"Collective name\": \"allreduce\", \"In msg nelems\": 8, \"dtype\": \"Float\", "
              "\"Process Group Name\": \"5\"")
        .Groups(fmt::format("[{{\"pg_name\": \"5\", \"group_size\": {}, \"ranks\": []}}]", size))
        .Json();
  };
  const auto notes_of = [&](int size) {
    const Result<ImportResult> result = Import({listed(size)});
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? result->notes.Lines() : std::vector<std::string>();
  };
  const auto assumed = Contains(HasSubstr("collectives without a process group have all ranks: 1"));
  EXPECT_THAT(notes_of(8), Not(assumed));
  EXPECT_THAT(notes_of(2), assumed) << "it is not known which two";
}

TEST(KinetoSpelling, numbers_may_be_text) {
  const std::string text = Replaced(Usual(), R"((": )(\d[\d.]*))", R"($1"$2")");
  ASSERT_THAT(text, HasSubstr("\"dur\": \"300\""));
  EXPECT_EQ(ComputeNs(text), 500'000);
  EXPECT_EQ(ComputeNs(Usual()), 500'000);
}

TEST(KinetoSpelling, ids_may_be_to_the_base_16_and_phases_left_out) {
  EXPECT_EQ(ComputeNs(Replaced(Usual(), R"("correlation": (\d+))", R"("correlation": "0xabc0$1")")),
            500'000);
  EXPECT_EQ(ComputeNs(Replaced(Usual(), R"("ph": "X", )", "")), 500'000);
}

TEST(KinetoSpelling, long_names_are_cut_and_counted) {
  const std::string text = Replaced(Usual(), "gemm", std::string(5000, 'k').c_str());
  const Result<ImportResult> result = Import({text});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("more than 4,096 bytes are cut there: 1")));
  EXPECT_EQ(ComputeNs(text), 500'000);
}

TEST(KinetoSpelling, events_that_are_there_twice_count_once) {
  const std::string events = Usual().substr(Usual().find("traceEvents\": [") + 15);
  std::string twice = Usual();
  twice.replace(twice.size() - 2, 2, ",\n" + events);
  const Result<ImportResult> result = Import({twice});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("twice count once: 4")));
  EXPECT_EQ(ComputeNs(twice), 500'000);
}

TEST(KinetoSpelling, ids_that_are_used_again_are_paired_in_order) {
  const std::string text = Replaced(Usual(), R"("correlation": 2)", R"("correlation": 1)");
  ASSERT_NE(text, Usual());
  EXPECT_EQ(GraphOf(text).roles.front().program, GraphOf(Usual()).roles.front().program);
}

TEST(KinetoSpelling, ids_count_with_all_their_digits) {
  const std::string text = Replaced(Usual(), R"(("correlation": )(\d))", "$0 + 0");
  const std::string large =
      Replaced(Replaced(text, R"("correlation": 1 \+ 0)", R"("correlation": 18000000000000000001)"),
               R"("correlation": 2 \+ 0)", R"("correlation": 18000000000000000002)");
  EXPECT_EQ(GraphOf(large).roles.front().program.size(),
            GraphOf(Usual()).roles.front().program.size());
}

TEST(KinetoSpelling, ranges_may_have_their_begin_and_end_as_events_of_their_own) {
  // The end of the second range comes first in the file, and the first range lies around it.
  const std::string events =
      R"({"ph": "E", "pid": "host", "tid": "main", "ts": 40},
         {"ph": "B", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": "host",
          "tid": "main", "ts": 0},
         {"ph": "B", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": "host",
          "tid": "main", "ts": 35, "args": {"correlation": 1}},
         {"ph": "E", "pid": "host", "tid": "main", "ts": 500},
         {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 45, "dur": 100,
          "args": {"correlation": 1}})";
  const std::string whole = "{\"traceEvents\": [" + events + "]}";
  EXPECT_EQ(IterationNs(GraphOf(whole)), 500'000);
  EXPECT_EQ(ComputeNs(whole), 100'000);
  const std::string endless =
      R"(, {"ph": "B", "cat": "kernel", "name": "k", "pid": 0, "tid": 8, "ts": 50})";
  const Result<ImportResult> result = Import({"{\"traceEvents\": [" + events + endless + "]}"});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("are left out: 1")));
}

TEST(KinetoSpelling, a_range_without_a_duration_is_counted_and_left_out) {
  const Result<ImportResult> result = Import({Replaced(Usual(), R"("dur": 300, )", "")});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("are left out: 1")));
  EXPECT_EQ(ComputeNs(Replaced(Usual(), R"("dur": 300, )", "")), 200'000);
}

TEST(KinetoSpelling, two_processes_that_launch_in_one_file_are_refused) {
  const std::string second = Replaced(Usual(), R"("pid": 0)", R"("pid": 1)");
  const std::string events = second.substr(second.find('[', second.find("traceEvents")) + 1);
  const std::string both = Usual().substr(0, Usual().size() - 2) + ", " + events;
  EXPECT_THAT(Import({both}).status().message(), HasSubstr("2 processes launched"));
}

TEST(KinetoSpelling, an_empty_file_is_called_empty) {
  EXPECT_THAT(Import({" \n"}).status().message(), HasSubstr("is empty"));
}

TEST(KinetoSpelling, files_of_unknown_rank_are_of_the_ranks_in_their_names) {
  const std::string unknown = Replaced(Usual(), R"("distributedInfo": \{[^}]*\}, )", "");
  const std::string slow = Replaced(unknown, R"("dur": 200)", R"("dur": 400)");
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  const auto compute_of_first = [&](const std::string& one, const std::string& other) {
    const Result<ImportResult> result =
        ImportKinetoBytes({{one, unknown}, {other, slow}}, options, {});
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? replayer::Replay(result->graph, {})->ranks.front().compute_ns : -1;
  };
  EXPECT_EQ(compute_of_first("a/rank_1.json", "a/rank_0.json"), 700'000);
  EXPECT_EQ(compute_of_first("a/rank0.json", "b/rank0.json"), 500'000);
  EXPECT_EQ(compute_of_first("rank_1/x.json", "rank_0/y.json"), 500'000);
}

// The time from a launch to its kernel and pauses between kernels pass before the host goes on.
TEST(KinetoSpelling, a_host_that_waits_for_each_kernel_takes_its_time) {
  Profile profile(0, 1);
  profile.Step(0, 3500);
  for (int i = 0; i < 100; ++i) {
    profile.Call("cudaLaunchKernel", 35 * i, 5).Task("k", 7, 35 * i + 9, 10);
    profile.Call("cudaLaunchKernel", 35 * i + 5, 5).Task("k", 7, 35 * i + 21, 9);
    profile.Call("cudaStreamSynchronize", 35 * i + 10, 23);
  }
  EXPECT_EQ(IterationNs(GraphOf(profile.Json())), 3'500'000);
}

}  // namespace
}  // namespace prism::slicer
