// The nodes that DeepSpeed's launcher finds in a host file, through --include and --exclude.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/base/status.h"
#include "launch/inputs/launcher_line.h"

namespace prism::launch {

// Sets what the host file and the filters say: of the nodes at most as many as `nodes` asks for,
// and the slots of a node unless given. kBadFile for a file that cannot be used.
Status ReadHosts(const LauncherLine& line,
                 std::optional<int32_t>* nodes,
                 std::optional<int32_t>* ranks_per_node);

}  // namespace prism::launch
