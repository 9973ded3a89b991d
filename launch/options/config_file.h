// Config files of prism-emulate: TOML with the config keys of launch/options/options.h, at the top
// level or in the tables [job], [cluster], [ranks], [output].
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

using ConfigValues = std::map<std::string, std::vector<std::string>>;  // texts by config key

// kBadFile, naming file and line, when the file is absent, no TOML, or holds an unknown key.
Result<ConfigValues> ReadConfigFile(const std::string& path);

}  // namespace prism::launch
