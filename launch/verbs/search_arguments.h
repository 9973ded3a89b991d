// What a command line of prism search says: the problem, of one model or several, and how plans are
// looked for. Every fault is kInvalidArgument and names its flag.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/search/search.h"
#include "launch/verbs/verb.h"

namespace prism::launch {

// All but the threads.
Result<SearchOptions> ReadSearchOptions(const VerbArguments& arguments);

// The names of --model, which may be several with commas between them.
Result<std::vector<std::string>> ReadModelNames(const VerbArguments& arguments);

// What all jobs of a command line share: cluster, its costs and host memory, framework.
Result<SearchProblem> ReadSite(const VerbArguments& arguments);

// The same with the model, its batch and tokens.
Result<SearchProblem> ReadProblem(const VerbArguments& arguments, const std::string& model);

// Refuses options that ask for what the cluster does not state: a price, host memory.
Status CheckSite(const SearchProblem& site, const SearchOptions& options);

}  // namespace prism::launch
