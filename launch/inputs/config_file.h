// Config files of prism-emulate: TOML with the config keys of launch/inputs/options.h, at the top
// level or in the tables [job], [cluster], [ranks], [output].
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/base/input_hashes.h"
#include "graph/base/status.h"

namespace prism::launch {

struct ConfigValue {
  std::vector<std::string> texts;
  uint32_t line = 0;  // of the file
};

using ConfigValues = std::map<std::string, ConfigValue>;  // by config key

// kBadFile, naming file and line, when the file is absent, is not TOML, or contains an unknown key.
// The file is also noted in `read`, if not null.
Result<ConfigValues> ReadConfigFile(const std::string& path, InputHashes* read = nullptr);

}  // namespace prism::launch
