// prism-published: what `prism bench accuracy`, `prism bench collectives` and `prism calibrate`
// start, with the same command line, behind "calibrate" for the last.
#include <string>
#include <vector>

#include "graph/base/file.h"
#include "graph/validate/limits.h"
#include "launch/cli/verb_bench.h"
#include "launch/process/mpi_session.h"
#include "launch/process/output.h"

#include "experiments/published/benches.h"

namespace prism::launch {
namespace {

constexpr int64_t kMostGivenRows = 1000;

Result<PublishedOutput> RunAccuracy(const VerbArguments& arguments) {
  BenchAccuracyOptions options;
  options.tables.assign(arguments.operands().begin() + 1, arguments.operands().end());
  if (options.tables.empty()) {
    return InvalidArgument("no table given; name one: prism bench accuracy TABLE.csv");
  }
  options.parameter_sets = arguments.Text("parameter-sets");
  options.without = arguments.Texts("without");
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("calibrated", 1, kMostGivenRows, &options.calibrated));
  if (options.calibrated > 0) {
    PRISM_RETURN_IF_ERROR(
        RefuseOptions(arguments, {"out", "parameter-sets", "without", "ablation"}));
    return BenchCalibrated(options);
  }
  if (!arguments.Has("ablation")) {
    return BenchAccuracy(options);
  }
  PRISM_RETURN_IF_ERROR(RefuseOptions(arguments, {"parameter-sets"}));
  return BenchAblation(options);
}

Result<PublishedOutput> RunCollectives(const VerbArguments& arguments) {
  if (arguments.operands().size() > 1) {
    PRISM_RETURN_IF_ERROR(RefuseOptions(arguments, {"ranks", "cluster", "collective"}));
    const bool fit = arguments.Has("fit");
    return BenchCollectives({arguments.operands()[1], fit, !fit});
  }
  PRISM_RETURN_IF_ERROR(RefuseOptions(arguments, {"out", "fit"}));
  CollectiveSweepOptions options;
  int64_t ranks = options.ranks;
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("ranks", 2, graph::kMaxRanks, &ranks));
  options.ranks = static_cast<int32_t>(ranks);
  options.cluster = arguments.Text("cluster", options.cluster);
  options.collective = arguments.Text("collective", options.collective);
  return SweepCollective(options);
}

// Only predictions of published runs are divided among the processes of mpirun.
bool IsSpread(const VerbArguments& arguments) {
  return arguments.operands().front() == "accuracy" && !arguments.Has("ablation") &&
         !arguments.Has("calibrated") && !arguments.Has("parameter-sets");
}

// Rows are printed above the text unless they go to a file.
Result<std::string> RunPublished(const VerbArguments& arguments) {
  PRISM_RETURN_IF_ERROR(CheckBench(arguments));
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("out"));
  const std::string& name = arguments.operands().front();
  if (name != "accuracy" && name != "collectives") {
    return InvalidArgument("prism-published has accuracy and collectives; run prism bench " + name);
  }
  if (MpiSession::LaunchedRank() > 0 && !IsSpread(arguments)) {
    return std::string();
  }
  PRISM_ASSIGN_OR_RETURN(const PublishedOutput output,
                         name == "accuracy" ? RunAccuracy(arguments) : RunCollectives(arguments));
  const std::string out = arguments.Text("out");
  if (!out.empty() && !output.rows.empty()) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(out, output.rows));
  }
  if (arguments.format() == OutputFormat::kText) {
    const bool rows = out.empty() && !output.rows.empty() && !arguments.Has("ablation");
    return rows ? output.rows + "\n" + output.text : output.text;
  }
  std::string lines;
  for (const BenchCase& line : output.cases) {
    lines += CaseJson(line);
  }
  return lines;
}

Result<std::string> RunCalibrate(const VerbArguments& arguments) {
  CalibrateOptions options;
  options.inputs = arguments.operands();
  options.out = arguments.Text("o");
  if (options.out.empty()) {
    return InvalidArgument("no output file; name one with -o FILE.toml");
  }
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("o", options.inputs));
  options.row = arguments.Text("row");
  options.model = arguments.Text("model");
  options.json = arguments.format() == OutputFormat::kJson;
  return RunCalibration(options);
}

int Run(std::vector<std::string> words) {
  const bool calibrates = !words.empty() && words.front() == "calibrate";
  const std::string who = calibrates ? "prism calibrate" : "prism bench";
  const VerbSpec spec = calibrates ? CalibrateVerb().spec : BenchVerb().spec;
  words.erase(words.begin(), words.begin() + (calibrates ? 1 : 0));
  const Result<VerbArguments> arguments = VerbArguments::Parse(spec, words);
  if (!arguments.ok()) {
    return Fail(who, arguments.status());
  }
  if (arguments->help()) {
    return Say(who, VerbHelp(spec));
  }
  const Result<std::string> text = calibrates ? RunCalibrate(*arguments) : RunPublished(*arguments);
  return text.ok() ? Say(who, *text) : Fail(who, text.status());
}

}  // namespace
}  // namespace prism::launch

int main(int argc, char** argv) {
  return prism::launch::Run(std::vector<std::string>(argv + 1, argv + argc));
}
