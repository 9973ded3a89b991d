// What a command line of prism search specifies: the problem, for one model or several, and how to
// search for plans. Every fault is kInvalidArgument and names its flag.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/cli/verb.h"
#include "launch/plan/search.h"

namespace prism::launch {

// Texts are "" where the option is not given.
struct SearchArguments : SearchOptions {
  std::vector<std::string> models = {"gpt3-175b"};
  std::string cluster = "h100-8x";
  std::string framework = "megatron-core";
  std::string precision;
  double tokens = 300e9;
  std::optional<double> tokens_per_parameter;
  std::optional<double> price;
  std::optional<int64_t> global_batch_size;
  std::optional<int64_t> seq_len;
  std::optional<Objective> asked_objective;
  std::optional<int> asked_threads;
  std::string recompute = "any";
  std::string sequence_parallel = "any";
  std::string offload = "none";
  std::vector<std::string> plans;
  std::string graph;
  std::string vary;
  std::string jobs;
  std::string csv;
  std::string svg;
};

std::vector<Option<SearchArguments>> SearchTable();

// All but the threads.
Result<SearchOptions> ReadSearchOptions(const VerbArguments& arguments,
                                        const SearchArguments& search);

// What all jobs of a command line share: the cluster with its costs and host memory, and the
// framework.
Result<SearchProblem> ReadSite(const SearchArguments& search);

// The same with the model, its batch and tokens.
Result<SearchProblem> ReadProblem(const SearchArguments& search, const std::string& model);

// Refuses options that ask for what the cluster does not state: a price, host memory.
Status CheckSite(const SearchProblem& site, const SearchOptions& options);

}  // namespace prism::launch
