// The options with which several verbs specify how a graph is replayed (--perturb, --edit,
// --iterations) and explained (--costs, --critical-path,
// --find-straggler, --what-matters).
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/analyse/explanation.h"
#include "launch/cli/verb.h"
#include "launch/inputs/options.h"

namespace prism::launch {

// The entries of these options in a verb's table.
std::vector<OptionRow> ReplayVerbOptions();
std::vector<OptionRow> ExplanationOptions();

// Applies the command line to `options`: its perturbations replace those already there.
// `edit_file`: the --edit FILE.toml, which says what else is to change; "": none.
Status ReadReplayArguments(const VerbArguments& arguments,
                           Options* options,
                           std::string* edit_file);

ExplanationChoice ReadExplanationChoice(const VerbArguments& arguments);

}  // namespace prism::launch
