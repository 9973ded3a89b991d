// What a command line of prism search specifies: the problem, for one model or several, and how to
// search for plans. Every fault is kInvalidArgument and names its flag.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/cli/verb.h"
#include "launch/plan/search.h"

namespace prism::launch {

// All but the threads.
Result<SearchOptions> ReadSearchOptions(const VerbArguments& arguments);

// The names in --model, separated by commas.
Result<std::vector<std::string>> ReadModelNames(const VerbArguments& arguments);

// What all jobs of a command line share: the cluster with its costs and host memory, and the
// framework.
Result<SearchProblem> ReadSite(const VerbArguments& arguments);

// The same with the model, its batch and tokens.
Result<SearchProblem> ReadProblem(const VerbArguments& arguments, const std::string& model);

// Refuses options that ask for what the cluster does not state: a price, host memory.
Status CheckSite(const SearchProblem& site, const SearchOptions& options);

}  // namespace prism::launch
