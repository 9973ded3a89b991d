// prism diff: how two graphs, or the results of two runs, differ.
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/diff/diff.h"
#include "graph/validate/valid_graph.h"
#include "launch/analyse/profile/profile_file.h"
#include "launch/analyse/profile/profile_report.h"
#include "launch/cli/json_leaves.h"
#include "launch/cli/verb.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

// A value of summary.json that differs between the sides, as written in JSON; nullopt if that side
// has none.
struct NumberDifference {
  std::string path;
  std::optional<std::string> left;
  std::optional<std::string> right;
  std::optional<double> change_pct;  // of numbers: right over left
};

struct DiffOptions {
  bool strict = false;
  int64_t step = -1;
  std::string html;
};

struct Differences {
  std::vector<NumberDifference> numbers;
  std::vector<graph::Difference> graphs;

  [[nodiscard]] bool empty() const { return numbers.empty() && graphs.empty(); }
};

Result<std::vector<JsonLeaf>> ReadSummary(const std::string& folder) {
  const std::string path = (fs::path(folder) / "summary.json").string();
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return FlattenJson(text, path);
}

NumberDifference Compare(const JsonLeaf& left, const JsonLeaf& right) {
  NumberDifference difference = {left.path, left.text, right.text, {}};
  if (left.is_number && right.is_number && left.number != 0) {
    difference.change_pct = 100 * (right.number / left.number - 1);
  }
  return difference;
}

// In the order of the left side, followed by what only the right side has.
std::vector<NumberDifference> CompareSummaries(const std::vector<JsonLeaf>& left,
                                               const std::vector<JsonLeaf>& right) {
  std::map<std::string, const JsonLeaf*> right_by_path;
  for (const JsonLeaf& leaf : right) {
    right_by_path[leaf.path] = &leaf;
  }
  std::vector<NumberDifference> differences;
  for (const JsonLeaf& leaf : left) {
    const auto other = right_by_path.find(leaf.path);
    if (other == right_by_path.end()) {
      differences.push_back({leaf.path, leaf.text, {}, {}});
      continue;
    }
    if (leaf.text != other->second->text) {
      differences.push_back(Compare(leaf, *other->second));
    }
    right_by_path.erase(other);
  }
  for (const JsonLeaf& leaf : right) {
    if (right_by_path.contains(leaf.path)) {
      differences.push_back({leaf.path, {}, leaf.text, {}});
    }
  }
  return differences;
}

// How many differ; for a program the place already says so.
std::string CountText(const graph::Difference& difference) {
  if (difference.kind == graph::DifferenceKind::kProgram || difference.count == 1) {
    return {};
  }
  return fmt::format(", {} in all", FormatCount(difference.count));
}

std::string DiffText(const Differences& differences) {
  if (differences.empty()) {
    return "equal\n";
  }
  std::string text;
  for (const NumberDifference& difference : differences.numbers) {
    fmt::format_to(std::back_inserter(text), "{:<34}{:>22} -> {}", difference.path,
                   difference.left.value_or("absent"), difference.right.value_or("absent"));
    if (difference.change_pct.has_value()) {
      fmt::format_to(std::back_inserter(text), "  {:+.2f} %", *difference.change_pct);
    }
    text += '\n';
  }
  for (const graph::Difference& difference : differences.graphs) {
    fmt::format_to(std::back_inserter(text), "{} {}{}\n  left   {}\n  right  {}\n",
                   graph::DifferenceKindName(difference.kind), difference.where,
                   CountText(difference), difference.left.empty() ? "-" : difference.left,
                   difference.right.empty() ? "-" : difference.right);
  }
  return text;
}

std::string DiffJson(const Differences& differences) {
  return JsonText([&](JsonWriter& json) {
    json.Field("equal", differences.empty());
    json.ObjectsField("numbers", differences.numbers, [&](const NumberDifference& difference) {
      json.Field("path", difference.path);
      for (const auto& [side, value] :
           {std::pair("left", difference.left), std::pair("right", difference.right)}) {
        if (value.has_value()) {
          json.Key(side).Written(*value);
        }
      }
      json.OptionalField("change_pct", difference.change_pct);
    });
    json.ObjectsField("graphs", differences.graphs, [&](const graph::Difference& difference) {
      json.Field("kind", graph::DifferenceKindName(difference.kind));
      json.Field("where", difference.where).Field("count", difference.count);
      json.Field("left", difference.left).Field("right", difference.right);
    });
  });
}

Result<VerbOutput> DiffProfiles(const VerbArguments& arguments, const DiffOptions& options) {
  if (options.strict) {
    return InvalidArgument("--strict does not apply to profiles, of which no two are equal");
  }
  PRISM_ASSIGN_OR_RETURN(
      const TableReport report,
      CompareProfiles(arguments.operands()[0], arguments.operands()[1], {.step = options.step}));
  if (!options.html.empty()) {
    PRISM_RETURN_IF_ERROR(arguments.CheckOutput("html", arguments.operands()));
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(options.html, TablesHtml(report)));
  }
  return VerbOutput{arguments.as_json() ? TablesJson(report) : TablesText(report)};
}

Result<VerbOutput> RunDiff(const VerbArguments& arguments, const DiffOptions& options) {
  std::string left = arguments.operands()[0];
  std::string right = arguments.operands()[1];
  std::error_code ignored;
  for (const std::string& path : {left, right}) {
    std::error_code error;
    if (!fs::exists(path, error)) {
      return BadFile(fmt::format("cannot read {}: {}", path,
                                 error ? error.message() : "No such file or directory"));
    }
  }
  const bool runs = fs::is_directory(left, ignored);
  if (runs != fs::is_directory(right, ignored)) {
    return InvalidArgument(
        fmt::format("{} and {}: one is a folder and one is not; give two graphs or two run folders",
                    left, right));
  }
  if (!runs && (IsProfileFile(left) || IsProfileFile(right))) {
    return DiffProfiles(arguments, options);
  }
  if (options.step >= 0 || !options.html.empty()) {
    return InvalidArgument("--step and --html are for profiles; leave them out");
  }
  Differences differences;
  if (runs) {
    PRISM_ASSIGN_OR_RETURN(const std::vector<JsonLeaf> left_numbers, ReadSummary(left));
    PRISM_ASSIGN_OR_RETURN(const std::vector<JsonLeaf> right_numbers, ReadSummary(right));
    differences.numbers = CompareSummaries(left_numbers, right_numbers);
    left = (fs::path(left) / "graph.prism").string();
    right = (fs::path(right) / "graph.prism").string();
  }
  PRISM_ASSIGN_OR_RETURN(const graph::LoadedGraph left_graph, graph::LoadValidGraph(left));
  PRISM_ASSIGN_OR_RETURN(const graph::LoadedGraph right_graph, graph::LoadValidGraph(right));
  differences.graphs = graph::DiffGraphs(left_graph.graph, right_graph.graph);
  VerbOutput output;
  output.text = arguments.as_json() ? DiffJson(differences) : DiffText(differences);
  if (options.strict && !differences.empty()) {
    output.gate = GateNotMet(fmt::format("--strict: {} differences",
                                         differences.numbers.size() + differences.graphs.size()));
  }
  return output;
}

}  // namespace

Verb DiffVerb() {
  return MakeVerb<DiffOptions>(
      {"diff",
       "A B",
       "compare two graphs, two run folders or two profiles",
       "Run folders are compared by the numbers in summary.json and by their graphs, profiles of\n"
       "torch.profiler by the time of their kernels and ops (prism report --help says what of "
       "them\ncounts).\n"
       "Differences do not change the exit code, unless --strict is given.\n",
       2,
       2,
       {},
       {},
       true},
      {{"strict", &DiffOptions::strict, Switch(), "exit with code 4 if there is any difference"},
       {"step", &DiffOptions::step, WholeNumber(0, std::numeric_limits<int32_t>::max()),
        "N of the mark ProfilerStep#N that counts (profiles)", "all but the last"},
       {"html", &DiffOptions::html, Text("FILE"),
        "also write the comparison as one page (profiles)", "none"}},
      RunDiff);
}

}  // namespace prism::launch
