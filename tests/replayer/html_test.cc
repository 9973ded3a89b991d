// The page of a replay: its charts agree with the numbers.
#include "replayer/report/html.h"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/engine/replay_options.h"
#include "replayer/replay.h"
#include "replayer/report/gantt.h"
#include "slicer/workloads/workloads.h"
#include "tests/support/test_parameters.h"

namespace prism::replayer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint32_t kRanks = 2048;  // of GPT-3's 128: 16 stages

graph::Graph PipelineGraph() {
  Result<graph::Graph> graph = slicer::MakeWorkload("gpt3-layer", kRanks);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  graph->cluster = prism::testing::TestCluster();
  graph->job.name = "a <b> & \"c\"";
  return *std::move(graph);
}

ReplayResult ReplayOf(const graph::Graph& graph) {
  ReplayOptions options;
  options.iterations = 2;
  options.traced = RanksInHtml(graph);
  const Result<ReplayResult> result = Replay(graph, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return *result;
}

TEST(SteadyActivity, spans_sum_to_the_times_of_the_rank) {
  const graph::Graph graph = PipelineGraph();
  const ReplayResult result = ReplayOf(graph);
  ASSERT_EQ(result.timelines.size(), 16U);
  for (const Timeline& timeline : result.timelines) {
    const RankTimes& times = result.ranks[timeline.rank.value()];
    std::array<DurationNs, kSpanKinds> sums = {};
    TimeNs now = timeline.steady_begin;
    for (const ActivitySpan& span : SteadyActivity(graph, timeline, times)) {
      EXPECT_EQ(span.begin, now);
      EXPECT_GT(span.end, span.begin);
      sums[static_cast<size_t>(span.kind)] += span.end - span.begin;
      now = span.end;
    }
    EXPECT_EQ(sums,
              (std::array{times.compute_ns, times.exposed_comm_ns, times.bubble_ns, times.idle_ns}))
        << "rank " << timeline.rank.value();
  }
}

TEST(GanttSvg, columns_show_what_most_of_their_time_was_spent_on) {
  const std::string svg =
      GanttSvg({{"left <1>", {{0, 600, SpanKind::kCompute}, {600, 1000, SpanKind::kIdle}}},
                {"right", {{500, 2000, SpanKind::kBubble}}}});
  EXPECT_THAT(svg, HasSubstr("left &lt;1&gt;"));
  EXPECT_THAT(svg, HasSubstr("x=\"190\" y=\"0\" width=\"300\""));
  EXPECT_THAT(svg, HasSubstr("x=\"490\" y=\"0\" width=\"200\""));
  EXPECT_THAT(svg, HasSubstr("x=\"440\" y=\"16\" width=\"750\""));
}

TEST(HtmlReport, page_stands_by_itself_and_escapes_texts) {
  const graph::Graph graph = PipelineGraph();
  const ReplayResult result = ReplayOf(graph);
  SummaryInput input;
  input.graph = &graph;
  input.result = &result;
  Summary summary = Summarise(input);
  summary.warnings = {{"some_code", 3, "</script> in an example"}};
  const std::string page = HtmlReport(graph, result, summary, nullptr);
  EXPECT_EQ(page, HtmlReport(graph, result, summary, nullptr));
  EXPECT_THAT(page, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(page, HasSubstr("stage 15, rank "));
  EXPECT_THAT(page, HasSubstr("<\\/script> in an example"));
  EXPECT_THAT(page, HasSubstr("some_code: &lt;/script&gt; in an example (3)"));
  for (const char* outside : {"src=", "href=", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(HtmlReport, of_many_stages_some_are_shown) {
  graph::Graph graph = PipelineGraph();
  for (uint32_t i = 0; i < graph.ranks.size(); ++i) {
    graph.ranks.role[i] = i % 128;
  }
  graph.roles.resize(128);
  for (size_t i = 0; i < graph.roles.size(); ++i) {
    graph.roles[i].stage = static_cast<int32_t>(i);
  }
  const std::vector<Rank> shown = RanksInHtml(graph);
  EXPECT_EQ(shown.size(), 64U);
  EXPECT_EQ(shown.front(), Rank(0));
  EXPECT_EQ(shown.back(), Rank(127));
}

}  // namespace
}  // namespace prism::replayer
