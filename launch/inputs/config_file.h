// Config files of prism-emulate: TOML with the config keys of launch/inputs/options_table.cc, at
// the top level or in the tables [job], [cluster], [ranks], [output].
#pragma once

#include <string>

#include "graph/base/input_hashes.h"
#include "graph/base/status.h"
#include "launch/inputs/option_table.h"

namespace prism::launch {

// kBadFile, naming file and line, when the file is absent, is not TOML, or contains an unknown key.
// The file is also noted in `read`, if not null.
Result<GivenOptions> ReadConfigFile(const std::string& path, InputHashes* read = nullptr);

}  // namespace prism::launch
