// What several verbs take to say how a graph is to be replayed (--perturb, --edit, --iterations)
// and explained (--costs, --critical-path, --find-straggler).
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job.h"
#include "launch/options/options.h"
#include "launch/replays/explanation.h"
#include "launch/verbs/verb.h"
#include "replayer/replay.h"

namespace prism::launch {

// Their lines of the verb's table.
std::vector<VerbOption> ReplayVerbOptions();
std::vector<VerbOption> ExplanationOptions();

// Adds what the command line says to `options`: its perturbations take the place of those there.
// `edit_file`: the --edit FILE.toml, which says what else is to change; "" none.
Status ReadReplayArguments(const VerbArguments& arguments,
                           Options* options,
                           std::string* edit_file);

ExplanationChoice ReadExplanationChoice(const VerbArguments& arguments);

}  // namespace prism::launch
