// A script that starts a launcher: how many ranks it asks for.
#pragma once

#include "graph/base/status.h"
#include "launch/emulate/run/run_context.h"

namespace prism::launch {

// Starts the program until it reaches its launcher, whose stand-in (launch/cli/stand_in.h) leaves
// what it was given and goes no further; adds that to the options' launch. A script that reaches no
// launcher within a minute, or ends before, is a program like others. kRunFailed if it fails.
Status StartScript(RunContext* context);

}  // namespace prism::launch
