// What a recording depends on besides its rank, so that one of an earlier run is taken only if
// nothing of it is different: this build of Prism, torch and its interpreter, the options, the
// environment, the program's command, and files: those that the plan was made from, those that the
// command names, and the sources in the folder of its script. Packages that are installed elsewhere
// are known by torch's version only.
#pragma once

#include <map>
#include <string>

#include "graph/base/status.h"
#include "launch/emulate/run/run_context.h"

namespace prism::launch {

// Hashes, by what is hashed, as messages call it: "option seed", "file model/block.py".
using RunKey = std::map<std::string, std::string>;

// kBadFile for a file that cannot be read.
Result<RunKey> KeyOfRun(const RunContext& context);

// "option seed and 2 more"; "" if they are equal.
std::string DifferenceOf(const RunKey& a, const RunKey& b);

// One line for each, and back; lines that are none of these are ignored.
std::string KeyText(const RunKey& key);
RunKey ReadKeyText(const std::string& text);

}  // namespace prism::launch
