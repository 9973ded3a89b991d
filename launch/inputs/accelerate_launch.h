// What `accelerate launch` would set, from its options and its configuration file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "launch/inputs/launcher_line.h"

namespace prism::launch {

struct AccelerateLaunch {
  enum class Starts : uint8_t { kProgram, kTorchrun, kDeepSpeed };

  Starts starts = Starts::kTorchrun;  // what it starts the ranks with
  std::optional<int32_t> nodes;
  std::optional<int32_t> ranks;  // in total; unset: the GPUs of the nodes
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> notes;
};

// The configuration is the file of --config_file, else the one that `accelerate config` has left in
// the cache, if any. kBadFile for one that cannot be read.
Result<AccelerateLaunch> ReadAccelerateLaunch(LauncherLine line);

}  // namespace prism::launch
