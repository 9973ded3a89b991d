// prism-emulate in place of a launcher that a script starts (shim/launcher_calls.cc): as the rank
// that this process is, it becomes what the launcher would start.
#pragma once

#include <string>
#include <vector>

namespace prism::launch {

// Whether this process was started for a launcher.
bool IsStandIn(const std::string& name);

// `words` are the launcher's path and arguments. Leaves them in the file that PRISM_LAUNCH_FILE
// names, where process 0 finds how many ranks the script asks for; without PRISM_LAUNCH_PLACE it is
// asked for no more, and waits to be ended. Returns an exit code; a second launcher of a script is
// not run.
int RunStandIn(std::vector<std::string> words);

}  // namespace prism::launch
