#include "launch/cli/replay_arguments.h"

#include <sstream>
#include <utility>

#include <fmt/format.h>

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

}  // namespace

std::vector<VerbOption> ReplayVerbOptions() {
  return {{"perturb", "SPEC", "none", kPerturbationForms, true},
          {"network", JoinedNames(kNetworkNames), "analytic",
           "speed of transfers between nodes: that of the slowest link on their path, or what "
           "sharing links with all other transfers leaves"},
          {"edit", "FILE", "none",
           "perturbations from a file, one per line, # for comments; FILE.toml: compare the job "
           "with one whose program (overlap, buckets, recompute, optimizer, offload), kernels, "
           "ops, GPU, precision, cluster, algorithms or placement differ",
           true},
          {"iterations", "N", "3", "iterations to replay; the numbers are those of the last"}};
}

std::vector<VerbOption> ExplanationOptions() {
  return {
      {"costs", "", "off",
       "also print what decided the times of kernels (measurements, models or bytes), with counts "
       "and seconds"},
      {"critical-path", "", "off",
       "also print what determines the iteration time: compute, communication, bubble and host on "
       "the longest path through all ranks"},
      {"find-straggler", "", "off",
       "also name the slow rank, by its compute time against its peers and by who waits for whom"}};
}

Status ReadReplayArguments(const VerbArguments& arguments,
                           Options* options,
                           std::string* edit_file) {
  decltype(options->perturb) given;
  for (const std::string& spec : arguments.Texts("perturb")) {
    given.push_back({spec, ""});
  }
  for (const std::string& path : arguments.Texts("edit")) {
    if (!path.ends_with(".toml")) {
      PRISM_RETURN_IF_ERROR(ReadEdits(path, &given));
    } else if (!std::exchange(*edit_file, path).empty()) {
      return InvalidArgument("--edit takes one .toml file; merge them into one");
    }
  }
  if (!given.empty()) {
    options->perturb = std::move(given);
  }
  int64_t iterations = options->iterations;
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("iterations", 1, 1000, &iterations));
  options->iterations = static_cast<int32_t>(iterations);
  return arguments.ReadEnum("network", kNetworkNames, &options->network);
}

ExplanationChoice ReadExplanationChoice(const VerbArguments& arguments) {
  return {.costs = arguments.Has("costs"),
          .critical_path = arguments.Has("critical-path"),
          .straggler = arguments.Has("find-straggler")};
}

}  // namespace prism::launch
