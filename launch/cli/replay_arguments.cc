#include "launch/cli/replay_arguments.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/file.h"

namespace prism::launch {
namespace {

// One perturbation per line; what follows a # says why.
Status ReadEdits(const std::string& path, std::vector<PerturbationText>* perturb) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const size_t before = perturb->size();
  std::istringstream lines(text);
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      perturb->push_back({word, fmt::format("{}:{}", path, number)});
    }
  }
  return perturb->size() > before
             ? OkStatus()
             : BadFile(fmt::format("{}: contains no perturbation; see --help", path));
}

struct ReplayArguments : Options {
  std::vector<std::string> edits;  // files
};

// In the options' own table, --network and --iterations are about recording and emulation, too.
std::vector<Option<ReplayArguments>> ReplayTable() {
  using A = ReplayArguments;
  return {*std::ranges::find(OptionTable(), "perturb", &OptionRow::flag),
          {"network", &A::network, OneOf(kNetworkNames),
           "speed of transfers between nodes: that of the slowest link on their path, or what "
           "sharing links with all other transfers leaves"},
          {"edit", &A::edits, Text("FILE"),
           "perturbations from a file, one per line, # for comments; FILE.toml: compare the job "
           "with one whose program (overlap, buckets, recompute, optimizer, offload), kernels, "
           "ops, GPU, precision, cluster, algorithms or placement differ",
           "none"},
          {"iterations", &A::iterations, WholeNumber(1, 1000),
           "iterations to replay; the numbers are those of the last"}};
}

std::vector<Option<ExplanationChoice>> ExplanationTable() {
  using C = ExplanationChoice;
  return {
      {"costs", &C::costs, Switch(),
       "also print what decided the times of kernels (measurements, models or bytes), with counts "
       "and seconds",
       "off"},
      {"critical-path", &C::critical_path, Switch(),
       "also print what determines the iteration time: compute, communication, bubble and host on "
       "the longest path through all ranks",
       "off"},
      {"find-straggler", &C::straggler, Switch(),
       "also name the slow rank, by its compute time against its peers and by who waits for whom",
       "off"},
      {"links", &C::links, Switch(),
       "with --network flow: also print the load of the links between nodes, by kind and the "
       "busiest ones",
       "off"},
      {"what-matters", &C::what_matters, Switch(),
       "also rank what would shorten the iteration if it were 10 % faster: families of kernels, "
       "kernels, layers, stages, roles, hosts, communicators, links; each by a replay",
       "off"}};
}

}  // namespace

std::vector<OptionRow> ReplayVerbOptions() {
  return RowsOf(ReplayTable());
}

std::vector<OptionRow> ExplanationOptions() {
  return RowsOf(ExplanationTable());
}

Status ReadReplayArguments(const VerbArguments& arguments,
                           Options* options,
                           std::string* edit_file) {
  ReplayArguments given = {*options, {}};
  PRISM_RETURN_IF_ERROR(ReadOptions(ReplayTable(), arguments.given(), &given));
  if (!arguments.Has("perturb")) {
    given.perturb.clear();
  }
  for (const std::string& path : given.edits) {
    if (!path.ends_with(".toml")) {
      PRISM_RETURN_IF_ERROR(ReadEdits(path, &given.perturb));
    } else if (!std::exchange(*edit_file, path).empty()) {
      return InvalidArgument("--edit takes one .toml file; merge them into one");
    }
  }
  if (given.perturb.empty()) {
    given.perturb = options->perturb;
  }
  *options = std::move(given);
  return OkStatus();
}

ExplanationChoice ReadExplanationChoice(const VerbArguments& arguments) {
  ExplanationChoice choice;
  PRISM_CHECK(ReadOptions(ExplanationTable(), arguments.given(), &choice).ok());  // switches
  return choice;
}

}  // namespace prism::launch
