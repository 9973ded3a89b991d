// Building blocks of prism's verbs; their output is tested in tests/golden.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/bench/bench.h"
#include "launch/cli/json_leaves.h"
#include "launch/cli/verb.h"

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

double ValueOf(const BenchCase& line, const std::string& name) {
  const auto found = std::ranges::find(line.metrics, name, &BenchMetric::name);
  EXPECT_NE(found, line.metrics.end()) << name;
  return found == line.metrics.end() ? -1 : found->value;
}

std::vector<std::string> NamesOf(const BenchCase& line) {
  std::vector<std::string> names;
  for (const BenchMetric& metric : line.metrics) {
    EXPECT_FALSE(metric.unit.empty()) << metric.name;
    names.push_back(metric.name);
  }
  return names;
}

VerbSpec SomeSpec() {
  return {"some",
          "FILE",
          "does something",
          "",
          1,
          1,
          {{"some-number", "N", "3", "a number"}, {"loud", "", "", "a switch"}}};
}

TEST(VerbArguments, options_may_stand_anywhere_and_use_underscores) {
  const Result<VerbArguments> arguments = VerbArguments::Parse(
      SomeSpec(), {"--some_number=7", "a_b.prism", "--loud", "--format", "json"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().message();
  int64_t number = 0;
  EXPECT_TRUE(arguments->ReadInt("some-number", 0, 10, &number).ok());
  EXPECT_EQ(number, 7);
  EXPECT_TRUE(arguments->Has("loud"));
  EXPECT_EQ(arguments->format(), OutputFormat::kJson);
  EXPECT_THAT(arguments->operands(), ElementsAre("a_b.prism"));
}

TEST(VerbArguments, what_is_not_given_leaves_the_default) {
  const Result<VerbArguments> arguments = VerbArguments::Parse(SomeSpec(), {"a"});
  ASSERT_TRUE(arguments.ok());
  int64_t number = 3;
  EXPECT_TRUE(arguments->ReadInt("some-number", 0, 10, &number).ok());
  EXPECT_EQ(number, 3);
  EXPECT_FALSE(arguments->Has("loud"));
  EXPECT_TRUE(arguments->Texts("some-number").empty());
}

TEST(VerbArguments, numbers_out_of_range_and_strange_options_are_refused) {
  const Result<VerbArguments> arguments =
      VerbArguments::Parse(SomeSpec(), {"a", "--some-number", "11"});
  ASSERT_TRUE(arguments.ok());
  int64_t number = 3;
  EXPECT_EQ(arguments->ReadInt("some-number", 0, 10, &number).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(number, 3);
  for (const char* strange : {"--=x", "-", "--some", "-q", "---"}) {
    EXPECT_EQ(VerbArguments::Parse(SomeSpec(), {"a", strange, "b"}).status().code(),
              StatusCode::kInvalidArgument)
        << strange;
  }
}

TEST(FlattenJson, names_every_leaf_by_its_path) {
  const Result<std::vector<JsonLeaf>> leaves = FlattenJson(
      R"({"job": {"tp": 8, "name": "x"}, "list": [{"a": null}, {"a": 1.5}]})", "summary.json");
  ASSERT_TRUE(leaves.ok());
  std::vector<std::string> texts;
  for (const JsonLeaf& leaf : *leaves) {
    texts.push_back(leaf.path + "=" + leaf.text);
  }
  EXPECT_THAT(texts, ElementsAre("job.tp=8", "job.name=\"x\"", "list[0].a=null", "list[1].a=1.5"));
  EXPECT_TRUE(leaves->front().is_number);
  EXPECT_EQ(FlattenJson("{", "summary.json").status().code(), StatusCode::kBadFile);
  EXPECT_EQ(FlattenJson(std::string(300'000, '[') + std::string(300'000, ']'), "summary.json")
                .status()
                .message(),
            "summary.json: nested too deeply for a summary; run the job again");
}

// An added warning or assumption renames no other.
TEST(FlattenJson, names_elements_by_what_they_are_of) {
  const Result<std::vector<JsonLeaf>> leaves = FlattenJson(
      R"({"warnings": [{"code": "odd", "count": 2}], "assumptions": ["a.b = 3", "of x", "of x"]})",
      "summary.json");
  ASSERT_TRUE(leaves.ok());
  std::vector<std::string> paths;
  for (const JsonLeaf& leaf : *leaves) {
    paths.push_back(leaf.path);
  }
  EXPECT_THAT(paths, ElementsAre("warnings[odd].code", "warnings[odd].count", "assumptions[a.b]",
                                 "assumptions[of x]", "assumptions[of x #2]"));
}

TEST(BenchReplay, has_every_metric_of_the_contract) {
  BenchReplayOptions options;
  options.workload = {"ring", 64};
  const BenchResult result = BenchReplay(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->size(), 1U);
  EXPECT_THAT(NamesOf(result->front()),
              IsSupersetOf({"ops", "seconds", "build_seconds", "ops_per_s_per_core",
                            "bytes_per_op_memory", "bytes_per_op_file", "max_rss_bytes"}));
  for (const BenchMetric& metric : result->front().metrics) {
    if (metric.name != "folded_ops") {  // a ring has no runs of kernels
      EXPECT_THAT(metric.value, Gt(0.0)) << metric.name;
    }
  }
}

// Classes save work and change no time.
TEST(BenchReplay, without_classes_every_rank_is_evaluated) {
  BenchReplayOptions options;
  options.workload = {"dlrm", 32};
  const BenchResult merged = BenchReplay(options);
  options.classes = false;
  const BenchResult each = BenchReplay(options);
  ASSERT_TRUE(merged.ok() && each.ok());
  EXPECT_EQ(ValueOf(merged->front(), "classes"), 1);
  EXPECT_EQ(ValueOf(each->front(), "classes"), 32);
  EXPECT_EQ(ValueOf(each->front(), "ops"), 32 * ValueOf(merged->front(), "ops"));
  EXPECT_EQ(ValueOf(each->front(), "ops") + ValueOf(each->front(), "folded_ops"),
            ValueOf(each->front(), "job_ops"));
  EXPECT_EQ(ValueOf(each->front(), "iteration_seconds"),
            ValueOf(merged->front(), "iteration_seconds"));
}

TEST(BenchGraph, measures_a_graph_that_survives_its_file) {
  const BenchResult result = BenchGraph({"dlrm", 16});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_GT(ValueOf(result->front(), "encode_ops_per_s"), 0);
  EXPECT_GT(ValueOf(result->front(), "bytes_per_op_file"), 0);
}

TEST(BenchRecord, takes_every_record_through_channel_and_recorder) {
  const BenchResult result = BenchRecord();
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->size(), 3U);
  for (const BenchCase& line : *result) {
    EXPECT_GT(ValueOf(line, "records_per_s"), 0) << line.name;
    EXPECT_EQ(ValueOf(line, "records"), ValueOf(result->front(), "records"));
  }
}

TEST(DeviceSurface, lists_implemented_and_refused_names) {
  const VerbSpec spec = PresetsVerb().spec;
  const Result<VerbArguments> arguments = VerbArguments::Parse(spec, {"device-surface"});
  ASSERT_TRUE(arguments.ok());
  const Result<VerbOutput> output = PresetsVerb().run(*arguments);
#ifdef PRISM_HAVE_SHIM
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_THAT(output->text, HasSubstr("implemented  cudaLaunchKernel\n"));
  EXPECT_THAT(output->text, HasSubstr("implemented  ncclAllReduce\n"));
  EXPECT_THAT(output->text, HasSubstr("refused      "));
#else
  EXPECT_EQ(output.status().code(), StatusCode::kEnvironment);
#endif
}

}  // namespace
}  // namespace prism::launch
