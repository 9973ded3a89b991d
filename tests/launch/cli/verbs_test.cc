// Building blocks of prism's verbs; their output is tested in tests/golden.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
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

struct SomeOptions {
  int32_t number = 3;
  std::optional<double> factor;
  bool loud = false;
  std::vector<std::string> notes;
};

std::vector<Option<SomeOptions>> SomeTable() {
  using S = SomeOptions;
  return {{"some-number", &S::number, WholeNumber(0, 10), "a number"},
          {"factor", &S::factor, NumberAbove0("X"), "a factor"},
          {"loud", &S::loud, Switch(), "a switch"},
          {"note", &S::notes, Text("TEXT"), "a list"}};
}

std::string Echo(const SomeOptions& options) {
  return fmt::format("{} {} {} {}", options.number, options.factor.value_or(0), options.loud,
                     fmt::join(options.notes, "+"));
}

// What a verb with these options says about a command line, or why it refuses it.
std::string Said(const std::vector<std::string>& words) {
  const Verb verb = MakeVerb<SomeOptions>(
      {"some", "FILE", "does something", "", 1, 1}, SomeTable(),
      [](const VerbArguments& arguments, const SomeOptions& options) -> Result<VerbOutput> {
        return VerbOutput{arguments.operands().front() + ": " + Echo(options), {}};
      });
  const Result<VerbArguments> arguments = VerbArguments::Parse(verb.spec, words);
  if (!arguments.ok()) {
    EXPECT_EQ(arguments.status().code(), StatusCode::kInvalidArgument);
    return arguments.status().message();
  }
  const Result<VerbOutput> output = verb.run(*arguments);
  return output.ok() ? output->text : output.status().message();
}

TEST(Verb, options_may_stand_anywhere_and_use_underscores) {
  EXPECT_EQ(Said({"--some_number=7", "a_b.prism", "--loud", "--note", "x_y", "--note=z"}),
            "a_b.prism: 7 0 true x_y+z");
  EXPECT_EQ(Said({"a", "--factor", "2.5", "--loud=off"}), "a: 3 2.5 false ");
}

TEST(Verb, numbers_out_of_range_and_strange_options_are_refused) {
  EXPECT_EQ(Said({"a", "--some-number", "11"}),
            "--some-number: '11' is not a whole number from 0 to 10");
  EXPECT_EQ(Said({"a", "--factor=-1"}), "--factor: '-1' is not a number above 0");
  EXPECT_EQ(Said({"a", "--note", ""}), "--note is empty");
  EXPECT_EQ(Said({"a", "--loud=2"}),
            "--loud: '2' is unknown; choose one of off, on, 0, 1, false, true");
  EXPECT_EQ(Said({"a", "--some", "b"}), "unknown option --some; did you mean --some-number?");
  for (const char* strange : {"--=x", "-q", "---", "--"}) {
    EXPECT_THAT(Said({"a", strange, "b"}), HasSubstr("; see prism some --help")) << strange;
  }
  EXPECT_EQ(Said({"a", "-", "b"}), "expected FILE, got 3 arguments; see prism some --help");
}

TEST(Verb, default_in_the_help_is_the_initial_value_of_the_member) {
  const std::vector<Option<SomeOptions>> table = SomeTable();
  EXPECT_THAT(OptionHelp(table[0]), HasSubstr("a number [3]\n"));
  EXPECT_THAT(OptionHelp(table[1]), HasSubstr("a factor\n"));
  EXPECT_THAT(OptionHelp(table[2]), HasSubstr("a switch\n"));
}

TEST(VerbArguments, what_is_not_given_leaves_the_default) {
  const Result<VerbArguments> arguments =
      VerbArguments::Parse({"some", "FILE", "", "", 1, 1, RowsOf(SomeTable())}, {"a"});
  ASSERT_TRUE(arguments.ok());
  int64_t number = 3;
  EXPECT_TRUE(arguments->ReadInt("some-number", 0, 10, &number).ok());
  EXPECT_EQ(number, 3);
  EXPECT_FALSE(arguments->Has("loud"));
  EXPECT_TRUE(arguments->Texts("some-number").empty());
}

// Every option and verb is offered, so that a new one is.
TEST(Completion, offers_what_the_tables_have) {
  const Verb completion = CompletionVerb();
  for (const std::string& shell : completion.spec.words) {
    const Result<VerbArguments> arguments = VerbArguments::Parse(completion.spec, {shell});
    ASSERT_TRUE(arguments.ok());
    const std::string script = completion.run(*arguments)->text;
    for (const OptionRow& row : OptionTable()) {
      EXPECT_THAT(script, HasSubstr(shell == "fish" ? " -l " + row.flag + " " : row.dashed()));
    }
    for (const Verb& verb : AllVerbs()) {
      EXPECT_THAT(script, HasSubstr(verb.spec.name));
    }
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
  BenchOptions options;
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
  BenchOptions options;
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
  BenchOptions options;
  options.workload = {"dlrm", 16};
  const BenchResult result = BenchGraph(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_GT(ValueOf(result->front(), "encode_ops_per_s"), 0);
  EXPECT_GT(ValueOf(result->front(), "bytes_per_op_file"), 0);
}

TEST(BenchRecord, takes_every_record_through_channel_and_recorder) {
  const BenchResult result = BenchRecord({});
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
