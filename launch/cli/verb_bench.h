// What `prism bench` has in common with the program that runs its benches of published numbers
// (prism-published): one command line, and one JSON object (or block of text) a case.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/bench/bench.h"
#include "launch/cli/verb.h"

namespace prism::launch {

// Refuses an unknown bench, and options and operands that do not apply to the one that is named and
// would be silently ignored.
Status CheckBench(const VerbArguments& arguments);

// Refuses these options of a form of the bench.
Status RefuseOptions(const VerbArguments& arguments, const std::vector<std::string>& flags);

// A line of JSON.
std::string CaseJson(const BenchCase& line);

}  // namespace prism::launch
